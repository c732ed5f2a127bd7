import { expect } from 'chai';
import { profileSchema } from '#src/modules/profile/profile.schema.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('GET /entity/me/profile', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  it('200: returns the names and the email of the caller', async () => {
    const profile = profileSchema.parse((await ada.get('/entity/me/profile', 200)).body);
    expect(profile).to.deep.equal({
      user_id: ada.userId,
      email: ada.email,
      first_name: null,
      last_name: null,
      display_name: 'Ada',
      has_avatar: false,
      has_password: true,
      avatar_fallback_url: null,
    });
  });

  it('304: for the current ETag', async () => {
    const etag = (await ada.get('/entity/me/profile', 200)).headers.get('etag') ?? '';
    await ada.get('/entity/me/profile', 304, { 'If-None-Match': etag });
  });

  it('401: without a token', async () => {
    await shared.anonymous.get('/entity/me/profile', 401);
  });
});
