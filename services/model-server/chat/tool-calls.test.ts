import { expect } from 'chai';
import { callableTools, callSchema, isRepeated, readCall, recognizeCall, toGrammarSchema } from './tool-calls.ts';

const tools = [{ name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } }];

describe('the detector of tool calls in an answer', () => {
  const kindOf = (answer: string): string => recognizeCall(answer, tools).kind;

  for (const answer of [
    '<tool_call>',
    'Let me look. <tool_call>\n{',
    '{"name": "get_weather"',
    '{{"name":"get_weather"',
    '```json\n{"name": "get_weather"',
  ]) {
    it(`recognizes a tool call in ${JSON.stringify(answer)}`, () => expect(kindOf(answer)).to.equal('call'));
  }

  for (const answer of ['', '{', '``', '```json', '```json\n{"na', '{"name": "get_w']) {
    it(`waits for more text after ${JSON.stringify(answer)}`, () => expect(kindOf(answer)).to.equal('unclear'));
  }

  it('recognizes plain text, and rejects a call of an unknown tool as nonsense', () => {
    expect(kindOf('It rains.')).to.equal('text');
    expect(kindOf('{"city": "Oslo"}')).to.equal('text');
    expect(kindOf('{"name": "say_hi"')).to.equal('nonsense');
  });

  it('keeps the text before a tool call', () => {
    expect(recognizeCall('I look.<tool_call>', tools)).to.deep.equal({ kind: 'call', text: 'I look.' });
  });
});

describe('a tool call of a local model', () => {
  it('has a JSON schema that names each tool', () => {
    expect(callSchema(tools)).to.deep.equal({
      oneOf: [{ type: 'object', properties: { name: { const: 'get_weather' }, arguments: tools[0]?.parameters } }],
    });
  });

  it('is parsed, unless it is truncated', () => {
    expect(readCall('{"name": "get_weather", "arguments": {"city": "Oslo"}}')).to.deep.equal({
      name: 'get_weather',
      arguments: '{"city":"Oslo"}',
    });
    expect(readCall('{"name": "get_weather", "argum')).to.equal(null);
  });

  it('counts as repeated if an earlier call had the same arguments, even with some left out', () => {
    const made = {
      role: 'assistant' as const,
      content: '',
      toolCalls: [{ name: 'get_weather', arguments: '{"city": "Oslo"}' }],
    };
    expect(isRepeated({ name: 'get_weather', arguments: '{"city":"Oslo","unit":"c"}' }, [made])).to.equal(true);
    expect(isRepeated({ name: 'get_weather', arguments: '{"city":"Rome"}' }, [made])).to.equal(false);
    expect(isRepeated({ name: 'get_time', arguments: '{"city":"Oslo"}' }, [made])).to.equal(false);
  });

  it('may call only the tools that tool_choice allows', () => {
    const names = (toolChoice: Parameters<typeof callableTools>[0]['toolChoice']) =>
      callableTools({ tools: [...tools, { name: 'other', parameters: {} }], toolChoice }).map(({ name }) => name);
    expect(names('auto')).to.deep.equal(['get_weather', 'other']);
    expect(names('none')).to.deep.equal([]);
    expect(names({ name: 'other' })).to.deep.equal(['other']);
  });
});

describe('converting a JSON schema for grammars', () => {
  it('replaces anyOf by oneOf at any depth', () => {
    const schema = { type: 'object', properties: { score: { anyOf: [{ type: 'integer' }, { type: 'null' }] } } };
    expect(toGrammarSchema(schema)).to.deep.equal({
      type: 'object',
      properties: { score: { oneOf: [{ type: 'integer' }, { type: 'null' }] } },
    });
  });
});
