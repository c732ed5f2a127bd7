import { readFile } from 'node:fs/promises';
import { Tokenizer } from '@huggingface/tokenizers';
import { expect } from 'chai';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { verifiedModelFile } from '../model-files.ts';
import { miniLm } from '../model-manifest.ts';
import { toolsDir } from '../test-server.ts';
import { integerKernelOptions } from './integer-kernels.ts';
import { quantizeGraph } from './quantized-graph.ts';

const folders = { modelDir: null, toolsDir: toolsDir() };

describe('quantizeGraph', function () {
  this.timeout(60_000);

  const readShipped = async () => readFile(await verifiedModelFile(miniLm.graph, folders));

  it('turns all 36 products with int8 weights into integer products', async () => {
    expect(quantizeGraph(await readShipped()).integerProducts).to.equal(36);
  });

  it('moves no vector of the packaged model by more than 0.01 of its cosine', async () => {
    const shipped = await readShipped();
    const { model, integerProducts } = quantizeGraph(shipped, miniLm.precision);
    expect(integerProducts).to.equal(35);

    const tokenizerJson = await readFile(await verifiedModelFile(miniLm.tokenizer, folders), 'utf8');
    const tokenizer = new Tokenizer(JSON.parse(tokenizerJson), {});
    const before = await InferenceSession.create(shipped);
    const after = await InferenceSession.create(model, await integerKernelOptions());
    const texts = [...(await linesOfDocs()), ...smallTalk];
    expect(texts).to.have.length(100);
    for (const text of texts) {
      const { ids } = tokenizer.encode(text);
      expect(cosine(await embed(before, ids), await embed(after, ids)), text).to.be.at.least(0.99);
    }
  });

  it('refuses the name of a product that the model does not have', async () => {
    const shipped = await readShipped();
    const precision = { float: ['layer.9'], loudToken: { id: 101, factor: 5, products: [] } };
    expect(() => quantizeGraph(shipped, precision)).to.throw('layer.9');
  });

  it('refuses bytes that are not a model', () => {
    expect(() => quantizeGraph(Buffer.from('not a model'))).to.throw(/protobuf/);
  });
});

/** Quantization changes the embeddings of very short texts most. */
const smallTalk = [
  ...['Yes', 'No', 'Okay', 'Definitely.', "That's true.", 'You are right!', 'Great, thanks!', 'That is not correct.'],
  ...[
    "Um, I'm not actually sure.",
    'Thank you for that reply.',
    'No, definitely not.',
    'Kind regards',
    'What?',
    'Hello',
  ],
  ...['Pardon, I did not hear you.', 'Are you a bot?', 'That checks out.', 'Undecided', 'Tell me a joke.', 'Goodbye!'],
];

async function linesOfDocs(): Promise<string[]> {
  const docs = new URL('../../../docs/', import.meta.url);
  const pages = await Promise.all(
    ['architecture', 'operators', 'alignment', 'api', 'settings'].map((name) =>
      readFile(new URL(`${name}.md`, docs), 'utf8'),
    ),
  );
  const lines = pages.flatMap((page) => page.split('\n')).filter((line) => line.length > 20);
  return lines.slice(0, 100 - smallTalk.length);
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
