import { readFile } from 'node:fs/promises';
import { Tokenizer } from '@huggingface/tokenizers';
import { expect } from 'chai';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { verifiedModelFile } from '../model-files.ts';
import { miniLm } from '../model-manifest.ts';
import { toolsDir } from '../test-server.ts';
import { quantizeGraph } from './quantized-graph.ts';

const folders = { modelDir: null, toolsDir: toolsDir() };

describe('quantizeGraph', function () {
  this.timeout(60_000);

  it('turns all 36 products with int8 weights into integer products and hardly moves a vector', async () => {
    const shipped = await readFile(await verifiedModelFile(miniLm.graph, folders));
    const { model, integerProducts } = quantizeGraph(shipped);
    expect(integerProducts).to.equal(36);

    const tokenizerJson = await readFile(await verifiedModelFile(miniLm.tokenizer, folders), 'utf8');
    const tokenizer = new Tokenizer(JSON.parse(tokenizerJson), {});
    const [before, after] = [await InferenceSession.create(shipped), await InferenceSession.create(model)];
    const cosines: number[] = [];
    for (const sentence of await sentencesOfDocs()) {
      const { ids } = tokenizer.encode(sentence);
      cosines.push(cosine(await embed(before, ids), await embed(after, ids)));
    }
    expect(cosines).to.have.length(100);
    expect(cosines.reduce((sum, value) => sum + value) / cosines.length).to.be.at.least(0.99);
    expect(Math.min(...cosines)).to.be.at.least(0.98);
  });

  it('refuses bytes that are not a model', () => {
    expect(() => quantizeGraph(Buffer.from('not a model'))).to.throw(/protobuf/);
  });
});

/** A hundred texts of many lengths: lines of this project's own pages. */
async function sentencesOfDocs(): Promise<string[]> {
  const docs = new URL('../../../docs/', import.meta.url);
  const pages = await Promise.all(
    ['architecture', 'operators', 'alignment', 'api', 'settings'].map((name) =>
      readFile(new URL(`${name}.md`, docs), 'utf8'),
    ),
  );
  const lines = pages
    .join('\n')
    .split('\n')
    .filter((line) => line.length > 20);
  return lines.slice(0, 100);
}

async function embed(session: InferenceSession, ids: number[]): Promise<number[]> {
  const tensor = (values: number[]) => new Tensor('int64', BigInt64Array.from(values, BigInt), [1, ids.length]);
  const output = await session.run({
    input_ids: tensor(ids),
    attention_mask: tensor(ids.map(() => 1)),
    token_type_ids: tensor(ids.map(() => 0)),
  });
  const hidden = output.last_hidden_state?.data;
  if (!(hidden instanceof Float32Array)) throw new Error('no last_hidden_state');
  const { dimensions } = miniLm;
  return Array.from({ length: dimensions }, (_, dimension) =>
    ids.reduce((sum, _id, token) => sum + (hidden[token * dimensions + dimension] ?? 0), 0),
  );
}

function cosine(a: number[], b: number[]): number {
  const dot = (x: number[], y: number[]) => x.reduce((sum, value, index) => sum + value * (y[index] ?? 0), 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}
