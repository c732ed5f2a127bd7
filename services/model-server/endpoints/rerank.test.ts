import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { bgeSmall } from '../model-manifest.ts';
import { startTestServer, type TestServer } from '../test-server.ts';

const model = 'late-interaction-all-minilm-l6-v2-int8-r2';
const query = 'When is the invoice due?';
const documents = [
  'The harbour was closed by ice.',
  'The invoice is due on 14 March.',
  'Invoices are printed on blue paper.',
];

type Ranking = { results: { index: number; relevance_score: number; document?: { text: string } }[] };

describe('the model server', () => {
  const modelDir = mkdtempSync(join(tmpdir(), 'models-'));
  let server: TestServer;
  before(async () => {
    // A model is listed if its files exist; their content is not read before its first use.
    for (const { name } of bgeSmall.files) writeFileSync(join(modelDir, name), '');
    server = await startTestServer(modelDir);
  });
  after(async () => {
    await server.close();
    rmSync(modelDir, { recursive: true });
  });

  const post = (body: object) => fetch(`${server.url}/v1/rerank`, { method: 'POST', body: JSON.stringify(body) });
  const rank = async (body: object) => (await (await post({ model, query, documents, ...body })).json()) as Ranking;

  it('puts the passage that answers the query first at POST /v1/rerank, and gives scores from 0 to 1', async () => {
    const { results } = await rank({});
    expect(results.map(({ index }) => index)).to.deep.equal([1, 2, 0]);
    for (const { relevance_score } of results) expect(relevance_score).to.be.within(0, 1.000_001);
    expect(results[0]).not.to.have.property('document');
  });

  it('returns only the top_n best passages from POST /v1/rerank, with their texts on request', async () => {
    const objects = documents.map((text) => ({ text }));
    const { results } = await rank({ top_n: 1, return_documents: true, documents: objects });
    expect(results).to.have.length(1);
    expect(results[0]?.document).to.deep.equal({ text: documents[1] });
  });

  it('ranks a passage first that answers the query at its end, beyond the window of the model', async () => {
    const long = `${'The harbour was closed by ice. '.repeat(300)}${documents[1]}`;
    const { results } = await rank({ documents: [documents[2], long] });
    expect(results[0]?.index).to.equal(1);
  });

  it('lists its models at GET /v1/models as local and free of charge, with the query prefix and the languages of a model', async () => {
    const { data } = await server.client.models.list();
    const ids = ['all-minilm-l6-v2-int8-r2', bgeSmall.id, 'extractive-1', model];
    expect(data.map(({ id }) => id)).to.deep.equal(ids);
    for (const entry of data) {
      expect(entry).to.deep.include({ local: true, prices: { input: 0, cached_input: 0, output: 0 } });
    }
    const prefixes = data.map((entry) => Object(entry).query_prefix);
    expect(prefixes).to.deep.equal([undefined, bgeSmall.queryPrefix, undefined, undefined]);
    expect(data.map((entry) => Object(entry).languages)).to.deep.equal([['en'], ['en'], undefined, undefined]);
    expect(data[2]).to.deep.include({ structured_output: false });
  });

  it('answers 404 to POST /v1/rerank for an unknown model, and 400 without documents, text or query', async () => {
    const answers = await Promise.all([
      post({ model: 'rerank-v3.5', query, documents }),
      post({ model, query, documents: [] }),
      post({ model, query, documents: [''] }),
      post({ model, documents }),
    ]);
    expect(answers.map(({ status }) => status)).to.deep.equal([404, 400, 400, 400]);
  });
});
