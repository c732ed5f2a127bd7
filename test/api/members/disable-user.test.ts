import { expect } from 'chai';
import { memberListSchema } from '#src/modules/members/members.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = (userId: string) => `/entity/users/${userId}/disable`;

describe('POST /entity/users/{user_id}/disable', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  it('204: ends all sessions and rejects new sign-ins', async () => {
    const { password, email } = grace;
    await grace.get('/folders', 200);
    await ada.post(path(grace.userId), {}, 204);
    expect((await grace.get('/folders', 401)).body).to.include({ code: 'invalid_token' });
    const refresh = { refresh_token: grace.refreshToken };
    await shared.anonymous.post('/auth/refresh_tokens', refresh, 403);
    const { body } = await shared.anonymous.post('/auth/login', { username: email, password }, 403);
    expect(body).to.include({ code: 'account_disabled' });
  });

  it('204: changes nothing the second time', async () => {
    await ada.post(path(grace.userId), {}, 204);
    await ada.post(path(grace.userId), {}, 204);
    const entries = await auditEntries(shared, grace.userId);
    expect(entries.map(({ actorId, action }) => [actorId, action])).to.deep.equal([
      [ada.userId, 'member.added'],
      [ada.userId, 'user.disabled'],
    ]);
  });

  it('204: by a team admin for a member of the team', async () => {
    const team = await aTeam(ada, [grace]);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    await lead.post(path(grace.userId), {}, 204);
  });

  it('401: without a token', async () => {
    await shared.anonymous.post(path(grace.userId), {}, 401);
  });

  it('403: for members, for team admins outside of their team, and for the own account', async () => {
    const team = await aTeam(ada);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    const admin = await aColleague(shared, ada, 'Admin', { is_admin: true });
    for (const [by, target] of [
      [grace, lead],
      [lead, grace],
      [lead, ada],
      [lead, lead],
      [admin, admin],
    ] as const) {
      expect((await by.post(path(target.userId), {}, 403)).body).to.include({ code: 'forbidden' });
    }
  });

  it('404: for an unknown user or one of another organization', async () => {
    const eve = await shared.signUp('Eve');
    for (const id of [crypto.randomUUID(), eve.userId, '7']) {
      expect((await ada.post(path(id), {}, 404)).body).to.include({ code: 'user_not_found' });
    }
    await eve.get('/folders', 200);
  });

  it('409: for the last admin', async () => {
    expect((await ada.post(path(ada.userId), {}, 409)).body).to.include({ code: 'last_org_admin' });
  });

  it('409: for one of two admins who disable each other concurrently', async () => {
    await ada.patch(`/entity/members/${grace.userId}/org-admin`, { is_org_admin: true }, 200);
    const disable = (by: Member, target: Member) => by.raw(path(target.userId), { method: 'POST' });
    const replies = await Promise.all([disable(ada, grace), disable(grace, ada)]);
    // The second request is rejected because its sender is the last admin, or because the session has ended.
    expect(replies.map(({ status }) => status).sort()[0]).to.equal(204);
    expect([401, 409]).to.include(Math.max(...replies.map(({ status }) => status)));
  });

  it('keeps one enabled admin when many disable each other concurrently', async () => {
    const others = await Promise.all(
      Array.from({ length: 8 }, () => aColleague(shared, ada, 'Admin', { is_admin: true })),
    );
    const all = [ada, ...others];
    const pairs = Array.from({ length: 32 }, (_, n) => [all[n % 9] ?? ada, all[(n * 5 + 1) % 9] ?? ada] as const);
    const replies = await Promise.all(pairs.map(([by, target]) => by.raw(path(target.userId), { method: 'POST' })));
    for (const { status } of replies) expect([204, 401, 403, 409]).to.include(status);
    const { db } = shared.container;
    const left = await db('memberships as m')
      .join('users as u', 'u.id', 'm.userId')
      .where({ 'm.orgId': ada.orgId, 'm.isOrgAdmin': true, 'u.disabledAt': null })
      .select('u.id');
    expect(left.length).to.be.at.least(1);
  });

  it('keeps the user and the team memberships', async () => {
    const team = await aTeam(ada, [grace]);
    await ada.post(path(grace.userId), {}, 204);
    const { items } = memberListSchema.parse((await ada.get('/entity/members', 200)).body);
    const listed = items.find(({ user_id }) => user_id === grace.userId);
    expect(listed).to.deep.include({ disabled: true, teams: [{ team_id: team, is_team_admin: false }] });
  });
});
