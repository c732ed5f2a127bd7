import { Tokenizer } from '@huggingface/tokenizers';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { type ModelFolders, readModelFile } from '../model-files.ts';
import type { EmbeddingModel, OnnxEmbeddingModel, PackedEmbeddingModel } from '../model-manifest.ts';
import { readE5File } from './e5-file.ts';
import { writeE5Graph } from './e5-graph.ts';
import { integerKernelOptions } from './integer-kernels.ts';
import { quantizeGraph } from './quantized-graph.ts';
import { createUnigramTokenizer } from './unigram-tokenizer.ts';

/** A loaded embedding model. */
export type Encoder = {
  /** Splits a text into tokens, without special ones. */
  tokenIds(text: string): number[];
  /** Computes the vectors of the tokens of one window, with the special tokens at its begin and end. */
  run(ids: readonly number[]): Promise<Float32Array>;
};

export const SPECIAL_TOKENS = 2;

export function loadEncoder(model: EmbeddingModel, folders: ModelFolders): Promise<Encoder> {
  return model.format === 'onnx' ? loadOnnx(model, folders) : loadPacked(model, folders);
}

async function loadOnnx(model: OnnxEmbeddingModel, folders: ModelFolders): Promise<Encoder> {
  const [graph, tokenizerJson] = await Promise.all([
    readModelFile(model.graph, folders),
    readModelFile(model.tokenizer, folders),
  ]);
  const session = await createSession(quantizeGraph(graph, model.precision).model);
  // Removes the special tokens from the tokenizer, so that a text with "[SEP]" is read as characters.
  const tokenizer = new Tokenizer({ ...JSON.parse(tokenizerJson.toString('utf8')), added_tokens: [] }, {});
  const [begin, end] = ['[CLS]', '[SEP]'].map((token) => tokenizer.token_to_id(token));
  if (begin === undefined || end === undefined) throw new Error('The tokenizer has no special tokens [CLS] and [SEP].');

  return {
    tokenIds: (text) => tokenizer.encode(text, { add_special_tokens: false }).ids,
    run(ids) {
      const input = BigInt64Array.from([begin, ...ids, end], BigInt);
      const shape = [1, input.length];
      return run(session, {
        input_ids: new Tensor('int64', input, shape),
        attention_mask: new Tensor('int64', new BigInt64Array(input.length).fill(1n), shape),
        token_type_ids: new Tensor('int64', new BigInt64Array(input.length), shape),
      });
    },
  };
}

async function loadPacked(model: PackedEmbeddingModel, folders: ModelFolders): Promise<Encoder> {
  const file = readE5File(await readModelFile(model.weights, folders));
  const { hidden, vocabulary } = file;
  const session = await createSession(writeE5Graph(file, model.float));
  const [positions, type] = [file.floats('emb.pos'), file.floats('emb.type')];

  return {
    tokenIds: createUnigramTokenizer(vocabulary),
    run(ids) {
      const tokens = [vocabulary.begin, ...ids, vocabulary.end];
      const sums = positions.slice(0, tokens.length * hidden);
      tokens.forEach((id, token) => {
        file.row('emb.word', id).forEach((value, dimension) => {
          const place = token * hidden + dimension;
          sums[place] = (sums[place] ?? 0) + value + (type[dimension] ?? 0);
        });
      });
      return run(session, { embeddings: new Tensor('float32', sums, [1, tokens.length, hidden]) });
    },
  };
}

async function createSession(graph: Uint8Array): Promise<InferenceSession> {
  return InferenceSession.create(graph, {
    // The pool has one worker for each core, so more threads in a session would only compete.
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    logSeverityLevel: 3,
    ...(await integerKernelOptions()),
  });
}

async function run(session: InferenceSession, inputs: InferenceSession.FeedsType): Promise<Float32Array> {
  const hidden = (await session.run(inputs)).last_hidden_state?.data;
  if (!(hidden instanceof Float32Array)) throw new Error('The output of the embedding model has no last_hidden_state.');
  return hidden;
}
