import { expect } from 'chai';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { teamSchema } from '#src/modules/teams/teams.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { badNames, blankNames, eachBad } from '#test/support/bad-fields.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { post } from '#test/support/exact-limit.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = '/entity/teams';

describe('POST /entity/teams', () => {
  let shared: Stack;
  let ada: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const create = async (name: string) => teamSchema.parse((await ada.post(path, { name }, 201)).body);

  it('201: creates a team with a root folder that the org admin can use immediately', async () => {
    const team = await create(' Sales ');
    expect(team).to.include({ org_id: ada.orgId, name: 'Sales' });
    const folders = folderTreeNodeSchema.array().parse((await ada.get('/folders', 200)).body);
    const root = folders.find(({ system_role }) => system_role === 'team_root');
    expect(root).to.include({
      name: 'Sales',
      kind: 'system',
      visibility: 'team_level',
      entity_missing: false,
      can_write: true,
    });
    const [entry] = await auditEntries(shared, team.id);
    expect(entry).to.include({ actorId: ada.userId, action: 'team.created' });
  });

  it('201: creates one team per Idempotency-Key', async () => {
    const again = () => ada.post(path, { name: 'Sales' }, 201, { 'Idempotency-Key': 'sales' });
    expect((await again()).body).to.deep.equal((await again()).body);
  });

  it('201: with the name of a disabled team or of a team of another organization', async () => {
    const { id } = await create('Sales');
    await ada.delete(`${path}/${id}`, 204);
    await create('Sales');
    await (await shared.signUp('Eve')).post(path, { name: 'Sales' }, 201);
  });

  it('404: for a repeated request whose team was disabled meanwhile', async () => {
    const key = { 'Idempotency-Key': 'interrupted' };
    const { id } = Object((await ada.post(path, { name: 'Sales' }, 201, key)).body);
    await ada.delete(`${path}/${id}`, 204);
    // Simulates a process that crashed before it stored the response.
    await shared.container
      .db('idempotencyKeys')
      .where({ userId: ada.userId, key: 'interrupted' })
      .update({ responseStatus: null, responseBody: null, leaseExpiresAt: new Date(0) });
    expect((await ada.post(path, { name: 'Sales' }, 404, key)).body).include({ code: 'team_not_found' });
    await create('Sales');
  });

  it('401: without a token', async () => {
    await shared.anonymous.post(path, { name: 'Sales' }, 401);
  });

  it('403: for members and team admins', async () => {
    const team = await aTeam(ada);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    for (const member of [lead, await aColleague(shared, ada)]) {
      expect((await member.post(path, { name: 'Mine' }, 403)).body).to.include({ code: 'forbidden' });
    }
  });

  it('409: for the name of another team in any case and Unicode form, also for concurrent requests', async () => {
    await create('Caf\u00e9 SALES');
    expect((await ada.post(path, { name: ' cafe\u0301 sales' }, 409)).body).to.include({ code: 'name_taken' });
    const replies = await Promise.all(Array.from({ length: 32 }, () => post(ada, path, { name: 'Legal' })));
    expect(replies.map(({ status }) => status).sort()).to.deep.equal([201, ...Array(31).fill(409)]);
  });

  it('422: for a missing or blank name', async () => {
    for (const wrong of [{}, { name: 'x', members: [] }, ...eachBad({}, 'name', [...badNames, ...blankNames])]) {
      expect((await ada.post(path, wrong, 422)).body).to.include({ code: 'validation_failed' });
    }
  });
});
