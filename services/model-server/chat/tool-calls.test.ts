import { expect } from 'chai';
import { callableTools, callSchema, isRepeated, readCall, recognizeCall, toGrammarSchema } from './tool-calls.ts';

const tools = [{ name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } }];

describe('recognizeCall', () => {
  const kindOf = (answer: string): string => recognizeCall(answer, tools).kind;

  for (const answer of [
    '<tool_call>',
    'Let me look. <tool_call>\n{',
    '{"name": "get_weather"',
    '{{"name":"get_weather"',
    '```json\n{"name": "get_weather"',
  ]) {
    it(`sees a call in ${JSON.stringify(answer)}`, () => expect(kindOf(answer)).to.equal('call'));
  }

  for (const answer of ['', '{', '``', '```json', '```json\n{"na', '{"name": "get_w']) {
    it(`waits after ${JSON.stringify(answer)}`, () => expect(kindOf(answer)).to.equal('unclear'));
  }

  it('sees text, and nonsense in the call of what is no tool', () => {
    expect(kindOf('It rains.')).to.equal('text');
    expect(kindOf('{"city": "Oslo"}')).to.equal('text');
    expect(kindOf('{"name": "say_hi"')).to.equal('nonsense');
  });

  it('keeps what was said before the call', () => {
    expect(recognizeCall('I look.<tool_call>', tools)).to.deep.equal({ kind: 'call', text: 'I look.' });
  });
});

describe('the call of a tool', () => {
  it('has a schema that names each tool', () => {
    expect(callSchema(tools)).to.deep.equal({
      oneOf: [{ type: 'object', properties: { name: { const: 'get_weather' }, arguments: tools[0]?.parameters } }],
    });
  });

  it('is read, unless it was cut off', () => {
    expect(readCall('{"name": "get_weather", "arguments": {"city": "Oslo"}}')).to.deep.equal({
      name: 'get_weather',
      arguments: '{"city":"Oslo"}',
    });
    expect(readCall('{"name": "get_weather", "argum')).to.equal(null);
  });

  it('is a repetition of one with the same arguments, whatever that left out', () => {
    const made = {
      role: 'assistant' as const,
      content: '',
      toolCalls: [{ name: 'get_weather', arguments: '{"city": "Oslo"}' }],
    };
    expect(isRepeated({ name: 'get_weather', arguments: '{"city":"Oslo","unit":"c"}' }, [made])).to.equal(true);
    expect(isRepeated({ name: 'get_weather', arguments: '{"city":"Rome"}' }, [made])).to.equal(false);
    expect(isRepeated({ name: 'get_time', arguments: '{"city":"Oslo"}' }, [made])).to.equal(false);
  });

  it('may be of the tools that the choice allows', () => {
    const names = (toolChoice: Parameters<typeof callableTools>[0]['toolChoice']) =>
      callableTools({ tools: [...tools, { name: 'other', parameters: {} }], toolChoice }).map(({ name }) => name);
    expect(names('auto')).to.deep.equal(['get_weather', 'other']);
    expect(names('none')).to.deep.equal([]);
    expect(names({ name: 'other' })).to.deep.equal(['other']);
  });
});

describe('toGrammarSchema', () => {
  it('says oneOf for anyOf at any depth', () => {
    const schema = { type: 'object', properties: { score: { anyOf: [{ type: 'integer' }, { type: 'null' }] } } };
    expect(toGrammarSchema(schema)).to.deep.equal({
      type: 'object',
      properties: { score: { oneOf: [{ type: 'integer' }, { type: 'null' }] } },
    });
  });
});
