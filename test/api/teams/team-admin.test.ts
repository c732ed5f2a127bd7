import { expect } from 'chai';
import { teamMemberSchema } from '#src/modules/teams/teams.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { badSwitches, eachBad } from '#test/support/bad-fields.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = (teamId: string, userId: string) => `/entity/teams/${teamId}/members/${userId}/team-admin`;

describe('PATCH /entity/teams/{team_id}/members/{user_id}/team-admin', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  let team: string;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
    team = await aTeam(ada, [grace]);
  });

  const set = async (by: Member, user: Member, isTeamAdmin: boolean) => {
    const { body } = await by.patch(path(team, user.userId), { is_team_admin: isTeamAdmin }, 200);
    return teamMemberSchema.parse(body);
  };

  it('200: grants and revokes the role, effective from the next request', async () => {
    const member = await aColleague(shared, ada, 'Member', { team_id: team });
    const rename = (status: number) => grace.patch(`/entity/users/${member.userId}`, { display_name: 'x' }, status);
    await rename(403);
    expect(await set(ada, grace, true)).to.include({ user_id: grace.userId, is_team_admin: true });
    await rename(200);
    expect(await set(ada, grace, false)).to.include({ is_team_admin: false });
    await rename(403);
    const entries = (await auditEntries(shared, grace.userId)).slice(-2);
    expect(entries.map(({ action, detail }) => [action, detail])).to.deep.equal([
      ['team_member.role_changed', { team_id: team, is_team_admin: true }],
      ['team_member.role_changed', { team_id: team, is_team_admin: false }],
    ]);
  });

  it('200: by a team admin, also for the own role', async () => {
    await set(ada, grace, true);
    const member = await aColleague(shared, ada, 'Member', { team_id: team });
    await set(grace, member, true);
    await set(grace, grace, false);
    await grace.patch(path(team, grace.userId), { is_team_admin: true }, 403);
  });

  it('200: changes nothing the second time', async () => {
    await set(ada, grace, false);
    expect((await auditEntries(shared, grace.userId)).at(-1)).to.include({ action: 'team_member.added' });
  });

  it('401: without a token', async () => {
    await shared.anonymous.patch(path(team, grace.userId), { is_team_admin: true }, 401);
  });

  it('403: for members of the team and admins of other teams', async () => {
    const other = await aTeam(ada);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: other, is_team_admin: true });
    for (const member of [grace, lead]) {
      const { body } = await member.patch(path(team, grace.userId), { is_team_admin: true }, 403);
      expect(body).to.include({ code: 'forbidden' });
    }
  });

  it('404: for an unknown team, or a user who is not in it', async () => {
    const eve = await shared.signUp('Eve');
    const sent = { is_team_admin: true };
    for (const id of [await aTeam(eve, [eve]), crypto.randomUUID(), '7']) {
      expect((await ada.patch(path(id, grace.userId), sent, 404)).body).to.include({ code: 'team_not_found' });
    }
    for (const id of [ada.userId, eve.userId, crypto.randomUUID(), '7']) {
      expect((await ada.patch(path(team, id), sent, 404)).body).to.include({ code: 'member_not_found' });
    }
  });

  it('422: without a boolean', async () => {
    for (const wrong of [{}, { is_team_admin: true, x: 1 }, ...eachBad({}, 'is_team_admin', badSwitches)]) {
      await ada.patch(path(team, grace.userId), wrong, 422);
    }
  });
});
