import { expect } from 'chai';
import { agentListSchema } from '#src/modules/agents/agents.schema.ts';
import { aColleague, aDraft, anAgentOfDraft } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('hidden agents', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  const newAgent = async (visibility: string) => (await anAgentOfDraft(ada, await aDraft(ada), { visibility })).id;
  const listed = async (member: Member) =>
    agentListSchema.parse((await member.get('/agents', 200)).body).items.map(({ id }) => id);
  const hidden = async (member: Member) => Object((await member.get('/agents/hidden', 200)).body).ids;

  describe('POST /agents/{agent_id}/hide', () => {
    it('204: hides the agent from the list of the caller only, and is idempotent', async () => {
      const id = await newAgent('org_level');
      for (let times = 0; times < 2; times += 1) await grace.post(`/agents/${id}/hide`, undefined, 204);
      expect(await listed(grace)).not.to.include(id);
      expect(await listed(ada)).to.include(id);
      await grace.get(`/agents/${id}`, 200);
    });

    it('401: without a token', async () => {
      await shared.anonymous.post(`/agents/${crypto.randomUUID()}/hide`, undefined, 401);
    });

    it('404: rejects an agent that the caller may not read', async () => {
      const { body } = await grace.post(`/agents/${await newAgent('personal')}/hide`, undefined, 404);
      expect(body).to.include({ code: 'agent_not_found' });
    });
  });

  describe('DELETE /agents/{agent_id}/hide', () => {
    it('204: shows the agent in the list again, also if it was not hidden', async () => {
      const id = await newAgent('org_level');
      await grace.delete(`/agents/${id}/hide`, 204);
      await grace.post(`/agents/${id}/hide`, undefined, 204);
      await grace.delete(`/agents/${id}/hide`, 204);
      expect(await listed(grace)).to.include(id);
      expect(await hidden(grace)).not.to.include(id);
    });

    it('401: without a token', async () => {
      await shared.anonymous.delete(`/agents/${crypto.randomUUID()}/hide`, 401);
    });

    it('404: rejects an agent that the caller may not read', async () => {
      await grace.delete(`/agents/${await newAgent('personal')}/hide`, 404);
    });
  });

  describe('GET /agents/hidden', () => {
    it('200: lists the hidden agents that still exist', async () => {
      const barbara = await aColleague(shared, ada, 'Barbara');
      const [one, two] = [await newAgent('org_level'), await newAgent('org_level')];
      for (const id of [one, two]) await barbara.post(`/agents/${id}/hide`, undefined, 204);
      expect(await hidden(barbara)).to.have.members([one, two]);
      expect(await hidden(ada)).to.deep.equal([]);
      await ada.delete(`/agents/${two}`, 204);
      expect(await hidden(barbara)).to.deep.equal([one]);
    });

    it('401: without a token', async () => {
      await shared.anonymous.get('/agents/hidden', 401);
    });
  });
});
