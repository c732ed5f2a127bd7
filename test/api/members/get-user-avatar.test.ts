import { expect } from 'chai';
import { readAvatar, uploadAvatar } from '#test/support/avatars.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { gifOfFrames } from '#test/support/poison/images.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = (userId: string) => `/entity/users/${userId}/avatar`;

describe('GET /entity/users/{user_id}/avatar', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
    await uploadAvatar(grace, gifOfFrames(1), 200);
  });

  const expectNone = async (member: Member, userId: string) =>
    expect((await member.get(path(userId), 404)).body).include({ code: 'avatar_not_found' });
  const showElsewhere = (member: Member, avatarUrl: string) =>
    shared.container.db('users').where({ id: member.userId }).update({ avatarUrl });

  it('200: for all members of the organization, including the user', async () => {
    const own = await readAvatar(grace);
    for (const member of [ada, grace, await aColleague(shared, ada)]) {
      expect(await readAvatar(member, path(grace.userId))).deep.equal(own);
    }
    const { headers } = await ada.get(path(grace.userId), 200);
    expect(headers.get('content-type')).equal('image/webp');
    await ada.get(path(grace.userId), 304, { 'If-None-Match': headers.get('etag') ?? '' });
  });

  it('206: for a byte range', async () => {
    await ada.get(path(grace.userId), 206, { range: 'bytes=0-3' });
  });

  it('416: for a range outside of the file', async () => {
    await ada.get(path(grace.userId), 416, { range: 'bytes=1000000-' });
  });

  it('302: to the picture at the identity provider, unless the user has uploaded an avatar', async () => {
    const third = await aColleague(shared, ada, 'Third');
    const url = 'https://id.example/third?size=96';
    await showElsewhere(third, url);
    const response = await ada.raw(path(third.userId), { redirect: 'manual' });
    expect([response.status, response.headers.get('location')]).deep.equal([302, url]);
    expect(response.headers.get('cache-control')).equal('no-store');
    await uploadAvatar(third, gifOfFrames(1), 200);
    await ada.get(path(third.userId), 200);
  });

  it('401: without a token', async () => {
    await shared.anonymous.get(path(grace.userId), 401);
  });

  it('404: without an avatar, for an invalid id, and for users of other organizations', async () => {
    await expectNone(grace, ada.userId);
    await expectNone(ada, crypto.randomUUID());
    await expectNone(ada, 'no-id');
    const otto = await shared.signUp('Otto');
    await expectNone(otto, grace.userId);
    await showElsewhere(otto, 'https://id.example/otto');
    await expectNone(ada, otto.userId);
  });

  it('404: for a disabled or deleted user', async () => {
    const leaver = await aColleague(shared, ada, 'Leaver');
    await uploadAvatar(leaver, gifOfFrames(1), 200);
    await ada.post(`/entity/users/${leaver.userId}/disable`, undefined, 204);
    await expectNone(grace, leaver.userId);
    await ada.post(`/entity/users/${leaver.userId}/enable`, undefined, 204);
    await grace.get(path(leaver.userId), 200);
    await ada.delete(`/entity/members/${leaver.userId}`, 204);
    await expectNone(grace, leaver.userId);
  });
});
