import { expect } from 'chai';
import OpenAI from 'openai';
import { miniLm } from '../model-manifest.ts';
import { errorOf, startTestServer, type TestServer, until } from '../test-server.ts';

const model = miniLm.id;

describe('POST /v1/embeddings', () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer();
  });
  after(() => server.close());

  const embed = async (input: string | string[], encoding?: 'float' | 'base64'): Promise<number[][]> => {
    const format = encoding && { encoding_format: encoding };
    const answer = await server.client.embeddings.create({ model, input, ...format });
    return answer.data.map(({ embedding }) => embedding);
  };

  it('returns unit vectors of 384 numbers, equal in base64 (which the OpenAI SDK requests) and as lists of floats', async () => {
    const text = 'The invoice is due in thirty days.';
    const [[asBase64 = []], [asFloat = []]] = await Promise.all([embed(text), embed(text, 'float')]);
    expect(asBase64).to.have.length(384);
    expect(cosine(asBase64, asBase64)).to.be.closeTo(1, 1e-5);
    expect(asFloat).to.deep.equal([...asBase64]);
  });

  it('gives similar vectors to texts of similar meaning', async () => {
    const [question = [], answer = [], other = []] = await embed([
      'How can I get my money back?',
      'Refunds are granted within 30 days.',
      'The stadium was built in 1935.',
    ]);
    expect(cosine(question, answer)).to.be.greaterThan(cosine(question, other) + 0.2);
  });

  it('keeps the order of a batch, and embeds each text as if it were alone', async () => {
    const texts = ['one', 'a much longer text than the others, with a comma', 'two', 'three words here'];
    const batch = await embed(texts);
    const alone = await Promise.all(texts.map((text) => embed(text)));
    expect(batch).to.deep.equal(alone.flat());
  });

  it('embeds the whole of a text longer than the window of 256 tokens', async () => {
    const start = 'The harbour was closed by ice during the winter. '.repeat(200);
    const [cut = [], whole = [], end = []] = await embed([
      start,
      `${start}${'Our kitchen bakes bread with rye flour. '.repeat(200)}`,
      'Our kitchen bakes bread with rye flour.',
    ]);
    expect(cosine(whole, end)).to.be.greaterThan(cosine(cut, end) + 0.3);
  });

  it('embeds a text without white space and texts that look like special tokens', async () => {
    const vectors = await embed(['x'.repeat(9_000), '[SEP]', '[SEP] [PAD]', ' ', '\u{1F600}'.repeat(3_000)]);
    for (const vector of vectors) expect(cosine(vector, vector)).to.be.closeTo(1, 1e-5);
    expect(vectors[1]).not.to.deep.equal(vectors[2]);
  });

  it('counts the tokens of the input', async () => {
    const { usage } = await server.client.embeddings.create({ model, input: ['hello world', 'hello'] });
    expect(usage).to.deep.equal({ prompt_tokens: 7, total_tokens: 7 });
  });

  it('answers 404 for an unknown model, and 400 for empty input or an unsupported number of dimensions', async () => {
    const refusalOf = (changes: object) => errorOf(server.client.embeddings.create({ model, input: 'x', ...changes }));
    const type = 'invalid_request_error';
    const unknown = { status: 404, code: 'model_not_found', param: 'model', type };
    expect(await refusalOf({ model: 'text-embedding-3-small' })).to.include(unknown);
    expect(await refusalOf({ dimensions: 128 })).to.include({ status: 400, param: 'dimensions' });
    for (const input of ['', [], ['x', '']]) {
      const error = await refusalOf({ input });
      expect(error, JSON.stringify(input)).to.include({ status: 400, type });
      expect(error.param).to.match(/^input/);
    }
  });

  it('answers 400 to a body that is not JSON, and 413 to a body above 20 MB', async () => {
    const post = (body: string) => fetch(`${server.url}/v1/embeddings`, { method: 'POST', body });
    const [broken, huge] = await Promise.all([post('{'), post(' '.repeat(21 * 1024 * 1024))]);
    expect(broken.status).to.equal(400);
    expect(huge.status).to.equal(413);
    expect(await huge.json()).to.have.nested.property('error.message');
  });

  it('drops the request of a client that disconnects, and serves the next client', async () => {
    const leaving = new AbortController();
    const input = Array.from({ length: 1_000 }, (_, index) =>
      `A sentence to be embedded, number ${index}. `.repeat(20),
    );
    const request = server.client.embeddings.create({ model, input }, { signal: leaving.signal });
    await embed('served before the batch');
    leaving.abort();
    expect(await errorOf(request)).to.be.instanceOf(OpenAI.APIUserAbortError);
    await until(() => server.logLines.some((line) => line.includes('"complete":false')));
    const bulk = Array<string>(10).fill('Served, although it is bulk. '.repeat(60));
    expect(await embed(bulk)).to.have.length(10);
  });

  it('embeds a short question before longer texts that arrived earlier', async () => {
    const answered: string[] = [];
    const ask = async (name: string, text: string) => {
      await embed(text);
      answered.push(name);
    };
    const long = Array.from({ length: 5 }, (_, index) => ask('long', `${index} ${'w0 w1 '.repeat(600)}`));
    await Promise.race(long);
    await ask('question', 'Who pays?');
    await Promise.all(long);
    expect(answered.indexOf('question')).to.be.lessThan(4);
  });

  it('logs no input texts', async () => {
    await embed('a very secret text');
    expect(server.logLines.join('')).to.include('POST /v1/embeddings').and.not.include('secret');
  });
});

function cosine(a: number[], b: number[]): number {
  return a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
}
