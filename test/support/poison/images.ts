import { crc32 } from 'node:zlib';

const writers = {
  png: (width: number, height: number) => {
    const header = Buffer.alloc(21);
    header.write('IHDR', 0);
    header.writeUInt32BE(width, 4);
    header.writeUInt32BE(height, 8);
    header.set([8, 6, 0, 0, 0], 12);
    header.writeUInt32BE(crc32(header.subarray(0, 17)), 17);
    return Buffer.concat([
      Buffer.from('89504e470d0a1a0a0000000d', 'hex'),
      header,
      Buffer.from('0000000049444154', 'hex'),
    ]);
  },
  gif: (width: number, height: number) => {
    const size = Buffer.alloc(4);
    size.writeUInt16LE(width, 0);
    size.writeUInt16LE(height, 2);
    const image = Buffer.from([0x2c, 0, 0, 0, 0, ...size, 0, 2, 2, 0x4c, 0x01, 0, 0x3b]);
    return Buffer.concat([Buffer.from('GIF89a'), size, Buffer.from([0x80, 0, 0, 0, 0, 0, 255, 255, 255]), image]);
  },
  bmp: (width: number, height: number) => {
    const header = Buffer.alloc(54 + 100);
    header.write('BM', 0);
    header.writeUInt32LE(header.length, 2);
    header.writeUInt32LE(54, 10);
    header.writeUInt32LE(40, 14);
    header.writeInt32LE(width, 18);
    header.writeInt32LE(height, 22);
    header.writeUInt16LE(1, 26);
    header.writeUInt16LE(24, 28);
    return header;
  },
  jpg: (width: number, height: number) => {
    const frame = Buffer.from('ffd8ffe000104a46494600010100000100010000ffc00011080000000003011100021100031100', 'hex');
    frame.writeUInt16BE(height, 25);
    frame.writeUInt16BE(width, 27);
    return Buffer.concat([frame, Buffer.from('ffda000c03010002110311003f00', 'hex'), Buffer.alloc(100)]);
  },
  webp: (width: number, height: number) => {
    const chunk = Buffer.alloc(30);
    chunk.write('VP8X', 0);
    chunk.writeUInt32LE(10, 4);
    chunk.writeUIntLE(width - 1, 12, 3);
    chunk.writeUIntLE(height - 1, 15, 3);
    const size = Buffer.alloc(4);
    size.writeUInt32LE(chunk.length + 4);
    return Buffer.concat([Buffer.from('RIFF'), size, Buffer.from('WEBP'), chunk]);
  },
  tiff: (width: number, height: number) => {
    const tags = { 256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: 100 };
    const entries = Object.entries(tags);
    const directory = Buffer.alloc(2 + entries.length * 12 + 4);
    directory.writeUInt16LE(entries.length);
    entries.forEach(([tag, value], index) => {
      directory.writeUInt16LE(Number(tag), 2 + index * 12);
      directory.writeUInt16LE(4, 4 + index * 12);
      directory.writeUInt32LE(1, 6 + index * 12);
      directory.writeUInt32LE(value, 10 + index * 12);
    });
    return Buffer.concat([Buffer.from('49492a0008000000', 'hex'), directory, Buffer.alloc(100)]);
  },
};

/** An image of a few bytes whose header says that it is that large, in pixels. */
export function imageClaiming(format: keyof typeof writers, width: number, height: number): Buffer {
  return writers[format](width, height);
}

/** A moving picture of so many frames of one pixel. */
export function gifOfFrames(count: number): Buffer {
  const frame = Buffer.from('21f90400010000002c0000000001000100000202440100', 'hex');
  return Buffer.concat([
    Buffer.from('GIF89a'),
    Buffer.from([1, 0, 1, 0, 0x80, 0, 0, 0, 0, 0, 255, 255, 255]),
    ...Array<Buffer>(count).fill(frame),
    Buffer.from(';'),
  ]);
}
