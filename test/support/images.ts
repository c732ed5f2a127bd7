import { crc32 } from 'node:zlib';
import { expect } from 'chai';
import sharp, { type Sharp } from 'sharp';
import type { ApiClient, Reply } from './client.ts';

export const plainImage = (size: { width: number; height: number }): Sharp =>
  sharp({ create: { ...size, channels: 3, background: { r: 0, g: 0, b: 255 } } });

const writers = {
  png: (width: number, height: number) => {
    const header = Buffer.alloc(21);
    header.write('IHDR');
    header.writeUInt32BE(width, 4);
    header.writeUInt32BE(height, 8);
    header.set([8, 6, 0, 0, 0], 12);
    header.writeUInt32BE(crc32(header.subarray(0, 17)), 17);
    return Buffer.from(`89504e470d0a1a0a0000000d${header.toString('hex')}0000000049444154`, 'hex');
  },
  gif: (width: number, height: number) => {
    const size = Buffer.alloc(4);
    size.writeUInt16LE(width, 0);
    size.writeUInt16LE(height, 2);
    const image = Buffer.from([0x2c, 0, 0, 0, 0, ...size, 0, 2, 2, 0x4c, 0x01, 0, 0x3b]);
    return Buffer.concat([Buffer.from('GIF89a'), size, Buffer.from([0x80, 0, 0, 0, 0, 0, 255, 255, 255]), image]);
  },
  jpg: (width: number, height: number) => {
    const frame = Buffer.from('ffd8ffe000104a46494600010100000100010000ffc00011080000000003011100021100031100', 'hex');
    frame.writeUInt16BE(height, 25);
    frame.writeUInt16BE(width, 27);
    return Buffer.concat([frame, Buffer.from('ffda000c03010002110311003f00', 'hex'), Buffer.alloc(100)]);
  },
};

/** An image of a few bytes whose header claims this size in pixels. */
export const imageClaiming = (format: keyof typeof writers, width: number, height: number): Buffer =>
  writers[format](width, height);

export function gifOfFrames(count: number): Buffer {
  const head = Buffer.from('47494638396101000100800000000000ffffff', 'hex');
  const frame = Buffer.from('21f90400010000002c0000000001000100000202440100', 'hex');
  return Buffer.concat([head, ...Array<Buffer>(count).fill(frame), Buffer.from(';')]);
}

const avatarPath = '/entity/me/avatar';

/** Uploads an image under a name and type of a text, which the service ignores. */
export const uploadAvatar = (member: ApiClient, image: Buffer, status: number): Promise<Reply> =>
  member.upload(avatarPath, { name: 'me.txt', content: new Uint8Array(image), type: 'text/plain' }, status);

export async function readAvatar(member: ApiClient, of = avatarPath): Promise<Buffer> {
  const response = await member.raw(of);
  expect(response.status).equal(200);
  return Buffer.from(await response.arrayBuffer());
}
