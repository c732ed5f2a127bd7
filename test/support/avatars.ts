import { expect } from 'chai';
import type { ApiClient, Reply } from './client.ts';

const path = '/entity/me/avatar';

/** Sends an image, whatever it is called, to be the caller's avatar. */
export function uploadAvatar(member: ApiClient, image: Buffer, status: number): Promise<Reply> {
  return member.upload(path, { name: 'me.txt', content: new Uint8Array(image), type: 'text/plain' }, status);
}

export async function readAvatar(member: ApiClient, of = path): Promise<Buffer> {
  const response = await member.raw(of);
  expect(response.status).equal(200);
  return Buffer.from(await response.arrayBuffer());
}
