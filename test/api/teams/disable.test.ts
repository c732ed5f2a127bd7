import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = (teamId: string) => `/entity/teams/${teamId}`;

describe('DELETE /entity/teams/{team_id}', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const teamRoots = async (member: Member) => {
    const folders = folderTreeNodeSchema.array().parse((await member.get('/folders', 200)).body);
    return folders.filter(({ system_role }) => system_role === 'team_root');
  };

  it('204: members immediately lose content shared with the team; org admins keep it', async () => {
    const own = await shared.signUp();
    const grace = await aColleague(shared, own);
    const team = await aTeam(own, [grace]);
    const [root] = await teamRoots(grace);
    const fields = { target_folder_id: root?.id ?? '', ingest: 'false' };
    const { body } = await own.upload('/documents', { name: 'plan.txt', content: 'x' }, 201, { fields });
    const { id } = fullDocumentSchema.parse(body);
    await grace.get(`/documents/${id}`, 200);

    await own.delete(path(team), 204);
    await grace.get(`/documents/${id}`, 404);
    await grace.get(`/folders/${root?.id}`, 404);
    expect(await teamRoots(grace)).to.deep.equal([]);
    await own.get(`/documents/${id}`, 200);
    const [left] = await teamRoots(own);
    expect(left).to.include({ id: root?.id, entity_missing: true });
    expect((await auditEntries(shared, team)).at(-1)).to.include({ actorId: own.userId, action: 'team.disabled' });
  });

  it('204: nothing can be shared with the team afterwards', async () => {
    const team = await aTeam(ada, [ada]);
    await ada.delete(path(team), 204);
    await ada.post('/agent-drafts', { visibility: 'team_level', team_ids: [team] }, 404);
  });

  it('401: without a token', async () => {
    await shared.anonymous.delete(path(crypto.randomUUID()), 401);
  });

  it('403: for members and team admins', async () => {
    const team = await aTeam(ada);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    for (const member of [lead, await aColleague(shared, ada)]) {
      expect((await member.delete(path(team), 403)).body).to.include({ code: 'forbidden' });
    }
  });

  it('404: for a team that is unknown, disabled or of another organization', async () => {
    const team = await aTeam(ada);
    await (await shared.signUp('Eve')).delete(path(team), 404);
    await ada.delete(path(team), 204);
    for (const id of [team, crypto.randomUUID(), '7']) {
      expect((await ada.delete(path(id), 404)).body).to.include({ code: 'team_not_found' });
    }
  });
});
