import { expect } from 'chai';
import { callableTools, callSchema, isRepeated, readCall, recognizeCall, toGrammarSchema } from './tool-calls.ts';

const tools = [{ name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } }];

describe('the detector of tool calls in an answer', () => {
  it('recognizes a tool call by its beginning, waits for more text in unclear cases, and rejects unknown tools', () => {
    const answers: Record<string, string[]> = {
      call: [
        '<tool_call>',
        'Let me look. <tool_call>\n{',
        '{"name": "get_weather"',
        '{{"name":"get_weather"',
        '```json\n{"name": "get_weather"',
      ],
      unclear: ['', '{', '``', '```json', '```json\n{"na', '{"name": "get_w'],
      text: ['It rains.', '{"city": "Oslo"}'],
      nonsense: ['{"name": "say_hi"'],
    };
    for (const [kind, ofKind] of Object.entries(answers)) {
      for (const answer of ofKind) expect(recognizeCall(answer, tools).kind, answer).to.equal(kind);
    }
  });

  it('keeps the text before a tool call', () => {
    expect(recognizeCall('I look.<tool_call>', tools)).to.deep.equal({ kind: 'call', text: 'I look.' });
  });
});

describe('a tool call of a local model', () => {
  it('follows a JSON schema with one alternative per tool, written as oneOf, because grammars do not support anyOf', () => {
    expect(callSchema(tools)).to.deep.equal({
      oneOf: [{ type: 'object', properties: { name: { const: 'get_weather' }, arguments: tools[0]?.parameters } }],
    });
    const schemaOf = (name: string) => ({
      type: 'object',
      properties: { score: { [name]: [{ type: 'integer' }, { type: 'null' }] } },
    });
    expect(toGrammarSchema(schemaOf('anyOf'))).to.deep.equal(schemaOf('oneOf'));
  });

  it('is parsed if it is complete; a truncated one counts as no call', () => {
    expect(readCall('{"name": "get_weather", "arguments": {"city": "Oslo"}}')).to.deep.equal({
      name: 'get_weather',
      arguments: '{"city":"Oslo"}',
    });
    expect(readCall('{"name": "get_weather", "argum')).to.equal(null);
  });

  it('counts as repeated if it has all arguments of an earlier call of the tool, even with additional ones', () => {
    const toolCalls = [{ name: 'get_weather', arguments: '{"city": "Oslo"}' }];
    const isRepeatedCall = (name: string, args: string) =>
      isRepeated({ name, arguments: args }, [{ role: 'assistant', content: '', toolCalls }]);
    expect(isRepeatedCall('get_weather', '{"city":"Oslo","unit":"c"}')).to.equal(true);
    expect(isRepeatedCall('get_weather', '{"city":"Rome"}')).to.equal(false);
    expect(isRepeatedCall('get_time', '{"city":"Oslo"}')).to.equal(false);
  });

  it('may call only the tools that tool_choice allows', () => {
    const names = (toolChoice: Parameters<typeof callableTools>[0]['toolChoice']) =>
      callableTools({ tools: [...tools, { name: 'other', parameters: {} }], toolChoice }).map(({ name }) => name);
    expect(names('auto')).to.deep.equal(['get_weather', 'other']);
    expect(names('none')).to.deep.equal([]);
    expect(names({ name: 'other' })).to.deep.equal(['other']);
  });
});
