import { expect } from 'chai';
import { draftDetailSchema, draftListSchema } from '#src/modules/drafts/drafts.schema.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('drafts', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const create = async (body: object, member = ada) =>
    draftDetailSchema.parse((await member.post('/agent-drafts', body, 201)).body);

  describe('GET /agent-drafts', () => {
    it('200: lists own drafts, newest change first, whatever their visibility', async () => {
      const older = await create({ agent_name: 'Older', visibility: 'org_level' });
      const newer = await create({ agent_name: 'Newer' });
      await ada.post(`/agent-drafts/${older.id}/versions`, { parent_version_id: older.head_version_id }, 201);
      const { items } = draftListSchema.parse((await ada.get('/agent-drafts', 200)).body);
      expect(items.map(({ id }) => id)).to.deep.equal([older.id, newer.id]);
      const grace = await aColleague(shared, ada);
      expect((await grace.get('/agent-drafts', 200)).body).to.deep.equal({ items: [] });
    });

    it('401: without a token', async () => {
      await shared.anonymous.get('/agent-drafts', 401);
    });
  });

  describe('GET /agent-drafts/{draft_id}', () => {
    it('200: shows the chain from the root to the head', async () => {
      const draft = await create({ agent_name: 'Clerk' });
      await ada.post(`/agent-drafts/${draft.id}/versions`, { parent_version_id: draft.head_version_id }, 201);
      const read = draftDetailSchema.parse((await ada.get(`/agent-drafts/${draft.id}`, 200)).body);
      expect(read.versions.map(({ title }) => title)).to.deep.equal(['v1', 'v2']);
      expect(read.versions[1]).to.include({ id: read.head_version_id, parent_version_id: read.versions[0]?.id });
    });

    it('200: returns a draft of a team to its members, and 404 to other users', async () => {
      const [grace, barbara] = [await aColleague(shared, ada), await aColleague(shared, ada, 'Barbara')];
      const team = await aTeam(ada, [grace]);
      const { id } = await create({ visibility: 'team_level', team_ids: [team] });
      await grace.get(`/agent-drafts/${id}`, 200);
      await barbara.get(`/agent-drafts/${id}`, 404);
    });

    it('401: without a token', async () => {
      await shared.anonymous.get(`/agent-drafts/${crypto.randomUUID()}`, 401);
    });

    it('404: rejects org admins for personal drafts, other organizations and malformed ids', async () => {
      const grace = await aColleague(shared, ada);
      const { id } = await create({}, grace);
      for (const member of [ada, await shared.signUp('Eve')]) {
        expect((await member.get(`/agent-drafts/${id}`, 404)).body).to.include({ code: 'draft_not_found' });
      }
      await ada.get('/agent-drafts/7', 404);
    });
  });
});
