import { expect } from 'chai';
import { draftListSchema } from '#src/modules/drafts/drafts.schema.ts';
import { aColleague, aDraft } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('hidden drafts', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  const listed = async (member: Member) =>
    draftListSchema.parse((await member.get('/agent-drafts', 200)).body).items.map(({ id }) => id);
  const hidden = async (member: Member) => Object((await member.get('/agent-drafts/hidden', 200)).body).ids;

  describe('POST /agent-drafts/{draft_id}/hide', () => {
    it('204: hides the draft from the list of the caller only, is idempotent and keeps it readable', async () => {
      const { id } = await aDraft(ada);
      for (let times = 0; times < 2; times += 1) await ada.post(`/agent-drafts/${id}/hide`, undefined, 204);
      expect(await listed(ada)).not.to.include(id);
      await ada.get(`/agent-drafts/${id}`, 200);
    });

    it('204: hides a draft of another user, whose list stays unchanged', async () => {
      const { id } = await aDraft(ada, { visibility: 'org_level' });
      await grace.post(`/agent-drafts/${id}/hide`, undefined, 204);
      expect(await listed(ada)).to.include(id);
      expect(await hidden(ada)).not.to.include(id);
    });

    it('401: without a token', async () => {
      await shared.anonymous.post(`/agent-drafts/${crypto.randomUUID()}/hide`, undefined, 401);
    });

    it('404: rejects a draft that the caller may not read', async () => {
      const { id } = await aDraft(ada);
      const { body } = await grace.post(`/agent-drafts/${id}/hide`, undefined, 404);
      expect(body).to.include({ code: 'draft_not_found' });
    });
  });

  describe('DELETE /agent-drafts/{draft_id}/hide', () => {
    it('204: shows the draft in the list again, also if it was not hidden', async () => {
      const { id } = await aDraft(ada);
      await ada.delete(`/agent-drafts/${id}/hide`, 204);
      await ada.post(`/agent-drafts/${id}/hide`, undefined, 204);
      await ada.delete(`/agent-drafts/${id}/hide`, 204);
      expect(await listed(ada)).to.include(id);
      expect(await hidden(ada)).not.to.include(id);
    });

    it('401: without a token', async () => {
      await shared.anonymous.delete(`/agent-drafts/${crypto.randomUUID()}/hide`, 401);
    });

    it('404: rejects a draft that the caller may not read', async () => {
      const { id } = await aDraft(ada);
      await grace.delete(`/agent-drafts/${id}/hide`, 404);
    });
  });

  describe('GET /agent-drafts/hidden', () => {
    it('200: lists the hidden drafts that the caller may still read', async () => {
      const barbara = await aColleague(shared, ada, 'Barbara');
      const [own, others] = [await aDraft(barbara), await aDraft(ada, { visibility: 'org_level' })];
      for (const { id } of [own, others]) await barbara.post(`/agent-drafts/${id}/hide`, undefined, 204);
      expect(await hidden(barbara)).to.have.members([own.id, others.id]);
      await ada.patch(`/agent-drafts/${others.id}/scope`, { visibility: 'personal' }, 200);
      expect(await hidden(barbara)).to.deep.equal([own.id]);
    });

    it('401: without a token', async () => {
      await shared.anonymous.get('/agent-drafts/hidden', 401);
    });
  });
});
