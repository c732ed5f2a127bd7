import { expect } from 'chai';
import { readAvatar, uploadAvatar } from '#test/support/avatars.ts';
import type { Member } from '#test/support/client.ts';
import { plainImage } from '#test/support/images.ts';
import { gifOfFrames } from '#test/support/poison/images.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = '/entity/me/avatar';

describe('GET /entity/me/avatar', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    await uploadAvatar(ada, await plainImage({ width: 64, height: 64 }).png().toBuffer(), 200);
  });

  it('200: a revalidated, sandboxed image', async () => {
    const { headers } = await ada.get(path, 200);
    expect(headers.get('content-type')).equal('image/webp');
    expect(headers.get('cache-control')).equal('private, no-cache');
    expect(headers.get('etag')).match(/^"[0-9a-f]{64}"$/);
    expect(headers.get('x-content-type-options')).equal('nosniff');
    expect(headers.get('content-security-policy')).equal("sandbox; default-src 'none'");
    expect(headers.get('content-disposition')).contain('attachment');
  });

  it('304: for the current ETag, until the avatar changes', async () => {
    const etag = (await ada.get(path, 200)).headers.get('etag') ?? '';
    await ada.get(path, 304, { 'If-None-Match': etag });
    await uploadAvatar(ada, gifOfFrames(1), 200);
    await ada.get(path, 200, { 'If-None-Match': etag });
  });

  it('206: for a byte range', async () => {
    const whole = await readAvatar(ada);
    const part = await ada.raw(path, { headers: { range: 'bytes=4-9' } });
    expect(part.status).equal(206);
    expect(Buffer.from(await part.arrayBuffer())).deep.equal(whole.subarray(4, 10));
  });

  it('416: for a range outside of the file', async () => {
    const { body } = await ada.get(path, 416, { range: 'bytes=1000000-' });
    expect(body).include({ code: 'range_not_satisfiable' });
  });

  it('401: without a token', async () => {
    await shared.anonymous.get(path, 401);
  });

  it('404: without an upload, even if the identity provider has a picture', async () => {
    const grace = await shared.signUp('Grace');
    await shared.container.db('users').where({ id: grace.userId }).update({ avatarUrl: 'https://id.example/grace' });
    expect((await grace.get(path, 404)).body).include({ code: 'avatar_not_found' });
    const { body } = await grace.get('/entity/me/profile', 200);
    expect(body).include({ has_avatar: false, avatar_fallback_url: 'https://id.example/grace' });
  });
});
