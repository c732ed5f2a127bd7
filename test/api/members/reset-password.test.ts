import { expect } from 'chai';
import { auditEntries } from '#test/support/audit-entries.ts';
import { badPasswords, eachBad } from '#test/support/bad-fields.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = (userId: string) => `/entity/users/${userId}/reset-password`;
const sent = { new_password: 'Battery-staple-2' };

describe('POST /entity/users/{user_id}/reset-password', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  it('204: only the new password works, and all sessions end', async () => {
    const { email: username, password, refreshToken } = grace;
    await grace.get('/folders', 200);
    await ada.post(path(grace.userId), sent, 204);
    await grace.get('/folders', 401);
    await shared.anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 401);
    await shared.anonymous.post('/auth/login', { username, password }, 401);
    await shared.anonymous.post('/auth/login', { username, password: sent.new_password }, 200);
    const entry = (await auditEntries(shared, grace.userId)).find(({ action }) => action === 'user.password_reset');
    expect(entry).to.deep.include({ actorId: ada.userId, detail: {} });
  });

  it('204: by a team admin for a member of the team, also a disabled one', async () => {
    const team = await aTeam(ada);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    const member = await aColleague(shared, ada, 'Member', { team_id: team });
    await lead.post(path(member.userId), sent, 204);
    await lead.post(`/entity/users/${member.userId}/disable`, {}, 204);
    await lead.post(path(member.userId), sent, 204);
  });

  it('401: without a token', async () => {
    await shared.anonymous.post(path(grace.userId), sent, 401);
  });

  it('403: for the own account, for members, and for team admins outside of their team', async () => {
    const team = await aTeam(ada);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    const taken = await aColleague(shared, ada, 'Taken');
    await lead.put(`/entity/teams/${team}/members/${taken.userId}`, {}, 200);
    for (const [by, target] of [
      [ada, ada],
      [taken, lead],
      [lead, ada],
      [lead, taken],
    ] as const) {
      expect((await by.post(path(target.userId), sent, 403)).body).to.include({ code: 'forbidden' });
    }
    await taken.get('/folders', 200);
  });

  it('404: for an unknown user or one of another organization', async () => {
    const eve = await shared.signUp('Eve');
    for (const id of [crypto.randomUUID(), eve.userId, '7']) {
      expect((await ada.post(path(id), sent, 404)).body).to.include({ code: 'user_not_found' });
    }
    await eve.get('/folders', 200);
  });

  it('422: for a password that does not meet the rule', async () => {
    for (const wrong of [{}, { ...sent, password: 'x' }, ...eachBad({}, 'new_password', badPasswords)]) {
      expect((await ada.post(path(grace.userId), wrong, 422)).body).to.include({ code: 'validation_failed' });
    }
  });
});
