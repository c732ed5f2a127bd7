import { expect } from 'chai';
import { memberListSchema } from '#src/modules/members/members.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = (teamId: string, userId: string) => `/entity/teams/${teamId}/members/${userId}`;

describe('DELETE /entity/teams/{team_id}/members/{user_id}', () => {
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

  it('204: the user stays in the organization and keeps their content', async () => {
    const draft = { visibility: 'team_level', team_ids: [team] };
    const { id } = (await grace.post('/agent-drafts', draft, 201)).body as { id: string };
    await grace.get(`/entity/teams/${team}/members`, 200);
    await ada.delete(path(team, grace.userId), 204);
    await grace.get(`/entity/teams/${team}/members`, 403);
    await grace.get(`/agent-drafts/${id}`, 200);
    const { items } = memberListSchema.parse((await ada.get('/entity/members', 200)).body);
    expect(items.find(({ user_id }) => user_id === grace.userId)?.teams).to.deep.equal([]);
    const entry = (await auditEntries(shared, grace.userId)).at(-1);
    expect(entry).to.deep.include({ action: 'team_member.removed', detail: { team_id: team } });
  });

  it('204: by a team admin, also for the own membership', async () => {
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    await lead.delete(path(team, grace.userId), 204);
    await lead.delete(path(team, lead.userId), 204);
    await lead.delete(path(team, lead.userId), 403);
  });

  it('401: without a token', async () => {
    await shared.anonymous.delete(path(team, grace.userId), 401);
  });

  it('403: for members of the team and admins of other teams', async () => {
    const other = await aTeam(ada);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: other, is_team_admin: true });
    for (const member of [grace, lead]) {
      expect((await member.delete(path(team, grace.userId), 403)).body).to.include({ code: 'forbidden' });
    }
  });

  it('404: for an unknown team, or a user who is not in it', async () => {
    const eve = await shared.signUp('Eve');
    for (const id of [await aTeam(eve, [eve]), crypto.randomUUID(), '7']) {
      expect((await ada.delete(path(id, eve.userId), 404)).body).to.include({ code: 'team_not_found' });
    }
    for (const id of [ada.userId, eve.userId, crypto.randomUUID(), '7']) {
      expect((await ada.delete(path(team, id), 404)).body).to.include({ code: 'member_not_found' });
    }
  });
});
