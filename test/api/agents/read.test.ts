import { expect } from 'chai';
import { agentListSchema } from '#src/modules/agents/agents.schema.ts';
import { aColleague, aDraft, aSettledAgentOfDraft, ask, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('agents', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const publish = async (scope: object, member = ada) => aSettledAgentOfDraft(member, await aDraft(member), scope);
  const list = async (member: Member) => agentListSchema.parse((await member.get('/agents', 200)).body).items;

  describe('GET /agents', () => {
    it('200: lists the agents that the caller may use, newest first, as published', async () => {
      const personal = await publish({});
      const shareable = await publish({ visibility: 'org_level' });
      expect(await list(ada)).to.deep.equal([shareable, personal]);
      const grace = await aColleague(shared, ada);
      expect(await list(grace)).to.deep.equal([{ ...shareable, can_write: false }]);
      expect(await list(await shared.signUp('Eve'))).to.deep.equal([]);
    });

    it('401: without a token', async () => {
      await shared.anonymous.get('/agents', 401);
    });
  });

  describe('GET /agents/{agent_id}', () => {
    it('200: returns an agent of a team to its members, and 404 to other users', async () => {
      const [grace, barbara] = [await aColleague(shared, ada), await aColleague(shared, ada, 'Barbara')];
      const team = await aTeam(ada, [grace]);
      const agent = await publish({ visibility: 'team_level', team_ids: [team] });
      expect((await grace.get(`/agents/${agent.id}`, 200)).body).to.deep.equal({ ...agent, can_write: false });
      expect((await barbara.get(`/agents/${agent.id}`, 404)).body).to.include({ code: 'agent_not_found' });
    });

    it('200: reports can_write to an org admin if the agent is shared', async () => {
      const grace = await aColleague(shared, ada);
      const { id } = await publish({ visibility: 'org_level' }, grace);
      expect((await ada.get(`/agents/${id}`, 200)).body).to.include({ can_write: true, created_by: grace.userId });
    });

    it('200: names the creator even after they have left the organization', async () => {
      const grace = await aColleague(shared, ada);
      const { id } = await publish({ visibility: 'org_level' }, grace);
      await ada.delete(`/entity/members/${grace.userId}`, 204);
      const left = { created_by: grace.userId, created_by_name: 'Grace', can_write: true };
      expect((await ada.get(`/agents/${id}`, 200)).body).to.include(left);
    });

    it('200: reports has_chats once there is a chat that the caller may read', async () => {
      const { id } = await publish({ visibility: 'org_level' });
      const grace = await aColleague(shared, ada);
      await ask(grace, { agent_id: id, message: 'Hello?', enable_rag: false }, 201);
      expect((await grace.get(`/agents/${id}`, 200)).body).to.include({ has_chats: true });
      expect((await ada.get(`/agents/${id}`, 200)).body).to.include({ has_chats: false });
    });

    it('200: reports ready while model and tools are available', async () => {
      const { id } = await publish({});
      const { db } = shared.container;
      for (const [gone, there] of [
        [{ chatModel: 'unheard-of' }, { chatModel: shared.config.models.chatModel }],
        [{ enabledTools: ['no.such.tool'] }, { enabledTools: [] }],
      ]) {
        await db('agents').where({ id }).update(gone);
        expect((await ada.get(`/agents/${id}`, 200)).body).to.include({ ready: false });
        await db('agents').where({ id }).update(there);
        expect((await ada.get(`/agents/${id}`, 200)).body).to.include({ ready: true });
      }
    });

    it('401: without a token', async () => {
      await shared.anonymous.get(`/agents/${crypto.randomUUID()}`, 401);
    });

    it('404: rejects deleted agents, those of other organizations and malformed ids', async () => {
      const { id } = await publish({ visibility: 'org_level' });
      await (await shared.signUp('Eve')).get(`/agents/${id}`, 404);
      await ada.delete(`/agents/${id}`, 204);
      await ada.get(`/agents/${id}`, 404);
      await ada.get('/agents/7', 404);
    });
  });
});
