import { expect } from 'chai';
import { userSchema } from '#src/modules/members/members.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { badEmails, badNames, badPasswords, badSwitches, eachBad } from '#test/support/bad-fields.ts';
import { aColleague, aTeam, freshEmail } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { itHoldsTheLimit, post } from '#test/support/exact-limit.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = (teamId: string) => `/entity/teams/${teamId}/members`;
const password = 'Correct-horse-1';

describe('POST /entity/teams/{team_id}/members', () => {
  let shared: Stack;
  let ada: Member;
  let lead: Member;
  let team: string;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    team = await aTeam(ada);
    lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
  });

  const create = async (by: Member, fields: object = {}) =>
    userSchema.parse((await by.post(path(team), { email: freshEmail(), password, ...fields }, 201)).body);

  it('201: creates a user in the team, whose account its admins manage', async () => {
    const user = await create(lead, { display_name: 'Grace' });
    expect(user).to.deep.include({
      display_name: 'Grace',
      org_id: ada.orgId,
      is_org_admin: false,
      teams: [{ team_id: team, is_team_admin: false }],
    });
    await shared.anonymous.post('/auth/login', { username: user.email, password }, 200);
    await lead.post(`/entity/users/${user.user_id}/disable`, {}, 204);
    expect((await auditEntries(shared, user.user_id))[0]).to.deep.include({
      actorId: lead.userId,
      action: 'member.added',
      detail: { is_org_admin: false, team_id: team },
    });
  });

  it('201: creates another team admin, also by an org admin', async () => {
    expect((await create(ada, { is_team_admin: true })).teams[0]).to.include({ is_team_admin: true });
  });

  it('201: creates one user per Idempotency-Key', async () => {
    const sent = { email: freshEmail(), password };
    const again = () => lead.post(path(team), sent, 201, { 'Idempotency-Key': sent.email });
    expect((await again()).body).to.deep.equal((await again()).body);
  });

  it('401: without a token', async () => {
    await shared.anonymous.post(path(team), {}, 401);
  });

  it('403: for members of the team and admins of other teams', async () => {
    const grace = await aColleague(shared, ada, 'Grace', { team_id: team });
    const other = await aTeam(ada);
    for (const [member, id] of [
      [grace, team],
      [lead, other],
    ] as const) {
      const { body } = await member.post(path(id), { email: freshEmail(), password }, 403);
      expect(body).to.include({ code: 'forbidden' });
    }
  });

  it('404: for a team that is unknown, disabled or of another organization', async () => {
    const disabled = await aTeam(ada);
    await ada.delete(`/entity/teams/${disabled}`, 204);
    const sent = { email: freshEmail(), password };
    for (const id of [disabled, crypto.randomUUID(), '7']) {
      expect((await ada.post(path(id), sent, 404)).body).to.include({ code: 'team_not_found' });
    }
    await (await shared.signUp('Eve')).post(path(team), sent, 404);
  });

  it('409: for an email with an account', async () => {
    const { body } = await lead.post(path(team), { email: ada.email, password }, 409);
    expect(body).to.include({ code: 'email_taken' });
  });

  itHoldsTheLimit(
    'member_limit_reached',
    async (member) => {
      const own = await aTeam(member);
      return () => post(member, path(own), { email: freshEmail(), password });
    },
    1,
  );

  it('422: for invalid fields', async () => {
    const right = { email: freshEmail(), password };
    for (const wrong of [
      {},
      { ...right, is_admin: true },
      { ...right, team_id: team },
      ...eachBad(right, 'email', badEmails),
      ...eachBad(right, 'password', badPasswords),
      ...eachBad(right, 'display_name', badNames),
      ...eachBad(right, 'is_team_admin', badSwitches),
    ]) {
      expect((await lead.post(path(team), wrong, 422)).body).to.include({ code: 'validation_failed' });
    }
  });
});
