import { expect } from 'chai';
import { uploadAvatar } from '#test/support/avatars.ts';
import type { Member } from '#test/support/client.ts';
import { gifOfFrames } from '#test/support/poison/images.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = '/entity/me/avatar';

describe('DELETE /entity/me/avatar', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  it('200: returns the profile without an avatar, also when repeated', async () => {
    await uploadAvatar(ada, gifOfFrames(1), 200);
    for (const _ of ['there', 'gone']) {
      expect((await ada.delete(path, 200)).body).include({ user_id: ada.userId, has_avatar: false });
    }
    await ada.get(path, 404);
    expect(await shared.container.db('avatars').where({ userId: ada.userId })).deep.equal([]);
  });

  it('401: without a token', async () => {
    await shared.anonymous.delete(path, 401);
  });
});
