import { expect } from 'chai';
import { multilingualE5 } from '../model-manifest.ts';
import { startTestServer, type TestServer, toolsDir } from '../test-server.ts';
import { type Encoder, loadEncoder } from './encoder.ts';

const { id: model } = multilingualE5;

const questions = {
  es: '¿Cuándo vence la factura?',
  ru: 'Когда нужно оплатить счёт?',
  vi: 'Khi nào đến hạn thanh toán hóa đơn?',
  th: 'ต้องชำระใบแจ้งหนี้เมื่อไร',
};
const passages = [
  'The invoice is due on 14 March.',
  'The harbour was closed by ice during the winter.',
  'Our kitchen bakes bread with rye flour.',
];

/** Runs with `npm run test:models`, after `npm run models -- fetch multilingual-e5-small-q4`. */
describe('the multilingual embedding model', function () {
  this.timeout(120_000);
  let server: TestServer;
  let encoder: Encoder;

  before(async () => {
    const modelDir = process.env.MODEL_DIR;
    if (!modelDir) throw new Error('MODEL_DIR is not set: run this as `npm run test:models`.');
    encoder = await loadEncoder(multilingualE5, { modelDir, toolsDir: toolsDir() }).catch((cause) => {
      throw new Error(`Fetch the model first: npm run models -- fetch ${model}`, { cause });
    });
    server = await startTestServer(modelDir);
  });
  after(() => server?.close());

  const embed = async (...input: string[]): Promise<number[][]> =>
    (await server.client.embeddings.create({ model, input })).data.map(({ embedding }) => embedding);

  // SentencePiece 0.2 gives these ids with the same vocabulary and its own nmt_nfkc normalization.
  for (const [text, ids] of [
    [questions.es, [3936, 33177, 709, 557, 81, 6620, 21, 75965, 32]],
    [questions.ru, [25202, 6944, 104051, 1117, 194647, 32]],
    [questions.vi, [16584, 3941, 1885, 21382, 15402, 18395, 9432, 11288, 32]],
    [questions.vi.normalize('NFD'), [16584, 3941, 1885, 21382, 15402, 18395, 9432, 11288, 32]],
    [questions.th, [43897, 149656, 22637, 33851, 170673, 14153, 60961]],
    ['ﬁne ① Ｆull', [5885, 106, 9312]],
    ['a <s> ߒߞߏ b', [10, 4426, 7, 2740, 6, 3, 876]],
  ] as const) {
    it(`splits ${text} as SentencePiece does`, () => expect(encoder.tokenIds(text)).to.deep.equal(ids));
  }

  it('is listed with a query prefix and without languages, because it knows most', async () => {
    const { data } = await server.client.models.list();
    const entry = data.find(({ id }) => id === model);
    expect(entry).to.include({ dimensions: 384, query_prefix: 'query: ', license: 'MIT' });
    expect(entry).not.to.have.property('languages');
  });

  it('finds the passage that answers a question in each language', async () => {
    const vectors = await embed(...passages);
    for (const question of Object.values(questions)) {
      const [query = []] = await embed(`query: ${question}`);
      const [answer = 0, ...others] = vectors.map((vector) => cosine(vector, query));
      expect(answer, question).to.be.greaterThan(Math.max(...others));
    }
  });

  it('reads a text as a passage unless it begins with the query prefix', async () => {
    const [passage = [], query = [], explicit = []] = await embed('rye', 'query: rye', 'passage: rye');
    expect(cosine(passage, query)).to.be.within(0.8, 0.999);
    // A prefix that the client adds is text.
    expect(cosine(passage, explicit)).to.be.below(0.999);
  });

  it('embeds the whole of a text longer than its window, and reports the tokens with the prefix', async () => {
    const start = `${passages[1]} `.repeat(200);
    const [cut = [], whole = [], end = []] = await embed(
      start,
      start + `${passages[2]} `.repeat(200),
      passages[2] ?? '',
    );
    expect(cosine(whole, end)).to.be.greaterThan(cosine(cut, end) + 0.05);
    const { usage } = await server.client.embeddings.create({ model, input: questions.ru });
    // Begin and end, `passage:` in two tokens, and the text.
    expect(usage.total_tokens).to.equal(2 + 2 + 6);
  });
});

function cosine(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
}
