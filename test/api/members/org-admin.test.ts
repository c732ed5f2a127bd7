import { expect } from 'chai';
import { memberListSchema, userSchema } from '#src/modules/members/members.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { badSwitches, eachBad } from '#test/support/bad-fields.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const path = (userId: string) => `/entity/members/${userId}/org-admin`;

describe('PATCH /entity/members/{user_id}/org-admin', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  const set = async (by: Member, userId: string, isOrgAdmin: boolean) =>
    userSchema.parse((await by.patch(path(userId), { is_org_admin: isOrgAdmin }, 200)).body);
  const admins = async (member: Member) => {
    const { items } = memberListSchema.parse((await member.get('/entity/members', 200)).body);
    return items.filter(({ is_admin, disabled }) => is_admin && !disabled).map(({ user_id }) => user_id);
  };
  const demotion = { method: 'PATCH', headers: { 'content-type': 'application/json' }, body: '{"is_org_admin":false}' };

  it('200: grants and revokes the role, effective from the next request', async () => {
    await grace.patch('/entity/org', { name: 'x' }, 403);
    expect(await set(ada, grace.userId, true)).to.include({ user_id: grace.userId, is_org_admin: true });
    await grace.patch('/entity/org', { name: 'Ours' }, 200);
    expect(await set(grace, grace.userId, false)).to.include({ is_org_admin: false });
    await grace.patch('/entity/org', { name: 'Mine' }, 403);
    const entries = await auditEntries(shared, grace.userId);
    expect(entries.map(({ actorId, action, detail }) => [actorId, action, detail])).to.deep.equal([
      [ada.userId, 'member.added', { is_org_admin: false, team_id: null }],
      [ada.userId, 'member.role_changed', { is_org_admin: true }],
      [grace.userId, 'member.role_changed', { is_org_admin: false }],
    ]);
  });

  it('200: a role revoked by another process is lost within seconds', async () => {
    await set(ada, grace.userId, true);
    await grace.patch('/entity/org', { name: 'Ours' }, 200);
    await shared.container.db('memberships').where({ userId: grace.userId }).update({ isOrgAdmin: false });
    await until('the role has gone', async () => {
      const reply = await grace.raw('/entity/org', { method: 'PATCH' });
      return reply.status === 403;
    });
  });

  it('200: changes nothing the second time', async () => {
    await set(ada, grace.userId, true);
    await set(ada, grace.userId, true);
    expect(await auditEntries(shared, grace.userId)).to.have.length(2);
  });

  it('401: without a token', async () => {
    await shared.anonymous.patch(path(grace.userId), { is_org_admin: true }, 401);
  });

  it('403: for a member who is not an org admin', async () => {
    await grace.patch(path(grace.userId), { is_org_admin: true }, 403);
  });

  it('404: for an unknown user or one of another organization', async () => {
    const eve = await shared.signUp('Eve');
    for (const id of [crypto.randomUUID(), eve.userId, '7']) {
      const { body } = await ada.patch(path(id), { is_org_admin: false }, 404);
      expect(body).to.include({ code: 'member_not_found' });
    }
  });

  it('409: for the last enabled admin', async () => {
    const refused = async () => (await ada.patch(path(ada.userId), { is_org_admin: false }, 409)).body;
    expect(await refused()).to.include({ code: 'last_org_admin' });
    await set(ada, grace.userId, true);
    await ada.post(`/entity/users/${grace.userId}/disable`, {}, 204);
    expect(await refused()).to.include({ code: 'last_org_admin' });
    await ada.post(`/entity/users/${grace.userId}/enable`, {}, 204);
    await set(ada, ada.userId, false);
  });

  it('403: for one of two admins who demote each other concurrently', async () => {
    await set(ada, grace.userId, true);
    const replies = await Promise.all([ada.raw(path(grace.userId), demotion), grace.raw(path(ada.userId), demotion)]);
    expect(replies.map(({ status }) => status).sort()).to.deep.equal([200, 403]);
    expect(await admins(ada)).to.have.length(1);
  });

  it('409: or 401, for one of two admins when one demotes and the other disables concurrently', async () => {
    await set(ada, grace.userId, true);
    const disabling = grace.raw(`/entity/users/${ada.userId}/disable`, { method: 'POST' });
    const [demoted, disabled] = await Promise.all([ada.raw(path(grace.userId), demotion), disabling]);
    const outcomes = [demoted.status === 200, disabled.status === 204];
    expect(outcomes.filter(Boolean)).to.have.length(1);
    expect(await admins(demoted.status === 200 ? ada : grace)).to.have.length(1);
  });

  it('409: for the last of many admins who give up the role concurrently', async () => {
    const others = await Promise.all(
      Array.from({ length: 8 }, () => aColleague(shared, ada, 'Admin', { is_admin: true })),
    );
    const all = [ada, ...others];
    const requests = Array.from({ length: 32 }, (_, n) => all[n % all.length] ?? ada);
    const replies = await Promise.all(requests.map((member) => member.raw(path(member.userId), demotion)));
    for (const { status } of replies) expect([200, 403, 409]).to.include(status);
    expect(await admins(ada)).to.have.length(1);
  });

  it('422: without a boolean', async () => {
    const bad = eachBad({}, 'is_org_admin', badSwitches);
    for (const wrong of [{}, { is_org_admin: true, is_admin: true }, ...bad]) {
      await ada.patch(path(grace.userId), wrong, 422);
    }
  });
});
