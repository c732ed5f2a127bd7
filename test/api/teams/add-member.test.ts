import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { teamMemberSchema } from '#src/modules/teams/teams.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { badSwitches, eachBad } from '#test/support/bad-fields.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = (teamId: string, userId: string) => `/entity/teams/${teamId}/members/${userId}`;

describe('PUT /entity/teams/{team_id}/members/{user_id}', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  let team: string;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
    team = await aTeam(ada);
  });

  const put = async (by: Member, user: Member, body: object = {}) =>
    teamMemberSchema.parse((await by.put(path(team, user.userId), body, 200)).body);

  it('200: adds a member of the organization, also without a body', async () => {
    expect(await put(ada, grace)).to.include({
      user_id: grace.userId,
      display_name: 'Grace',
      is_team_admin: false,
      disabled: false,
      added_by: ada.userId,
    });
    const bare = await ada.raw(path(team, ada.userId), { method: 'PUT' });
    expect([bare.status, teamMemberSchema.parse(await bare.json()).is_team_admin]).to.deep.equal([200, false]);
    expect((await auditEntries(shared, grace.userId)).at(-1)).to.deep.include({
      action: 'team_member.added',
      detail: { team_id: team, is_team_admin: false },
    });
  });

  it('200: immediately gives access to content shared with the team', async () => {
    await grace.get('/folders', 200);
    const folders = folderTreeNodeSchema.array().parse((await ada.get('/folders', 200)).body);
    const root = folders.find(({ system_role }) => system_role === 'team_root');
    const fields = { target_folder_id: root?.id ?? '', ingest: 'false' };
    const { body } = await ada.upload('/documents', { name: 'plan.txt', content: 'x' }, 201, { fields });
    const { id } = fullDocumentSchema.parse(body);
    await grace.get(`/documents/${id}`, 404);
    await put(ada, grace);
    await grace.get(`/documents/${id}`, 200);
    await grace.upload('/documents', { name: 'mine.txt', content: 'x' }, 403, { fields });
    await put(ada, grace, { is_team_admin: true });
    await grace.upload('/documents', { name: 'mine.txt', content: 'x' }, 201, { fields });
  });

  it('200: promotes a member, and never demotes an admin', async () => {
    const added = await put(ada, grace);
    expect(await put(ada, grace, { is_team_admin: true })).to.deep.equal({ ...added, is_team_admin: true });
    for (const body of [{}, { is_team_admin: false }]) {
      expect(await put(ada, grace, body)).to.include({ is_team_admin: true });
    }
    const entries = await auditEntries(shared, grace.userId);
    expect(entries.map(({ action }) => action)).to.deep.equal([
      'member.added',
      'team_member.added',
      'team_member.role_changed',
    ]);
  });

  it('200: by a team admin, who still may not manage the account', async () => {
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    await put(lead, grace);
    await lead.post(`/entity/users/${grace.userId}/disable`, {}, 403);
  });

  it('200: for concurrent requests that add the same member', async () => {
    const replies = await Promise.all(
      Array.from({ length: 16 }, () => ada.raw(path(team, grace.userId), { method: 'PUT' })),
    );
    expect(replies.map(({ status }) => status)).to.deep.equal(Array(16).fill(200));
  });

  it('401: without a token', async () => {
    await shared.anonymous.put(path(team, grace.userId), {}, 401);
  });

  it('403: for members of the team and admins of other teams', async () => {
    await put(ada, grace);
    const other = await aTeam(ada);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: other, is_team_admin: true });
    for (const member of [grace, lead]) {
      const { body } = await member.put(path(team, member.userId), { is_team_admin: true }, 403);
      expect(body).to.include({ code: 'forbidden' });
    }
  });

  it('404: for an unknown team, or a user who is not in the organization', async () => {
    const eve = await shared.signUp('Eve');
    const disabled = await aTeam(ada);
    await ada.delete(`/entity/teams/${disabled}`, 204);
    for (const id of [disabled, await aTeam(eve), crypto.randomUUID(), '7']) {
      expect((await ada.put(path(id, grace.userId), {}, 404)).body).to.include({ code: 'team_not_found' });
    }
    for (const id of [eve.userId, crypto.randomUUID(), '7']) {
      expect((await ada.put(path(team, id), {}, 404)).body).to.include({ code: 'member_not_found' });
    }
  });

  it('422: for a value that is not a boolean, and for an unknown field', async () => {
    for (const wrong of [{ is_admin: true }, ...eachBad({}, 'is_team_admin', badSwitches)]) {
      await ada.put(path(team, grace.userId), wrong, 422);
    }
  });
});
