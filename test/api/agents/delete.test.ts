import { expect } from 'chai';
import { agentListSchema } from '#src/modules/agents/agents.schema.ts';
import { aColleague, aDraft, anAgentOfDraft, ask, aTeam, readDraft } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('DELETE /agents/{agent_id}', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  const newAgent = async (scope: object = {}, member = ada) =>
    (await anAgentOfDraft(member, await aDraft(member), scope)).id;

  it('204: deletes the agent for all users and keeps its draft', async () => {
    const draft = await aDraft(ada);
    const { id } = await anAgentOfDraft(ada, draft, { visibility: 'org_level' });
    await ada.delete(`/agents/${id}`, 204);
    await grace.get(`/agents/${id}`, 404);
    await ada.post('/agent-drafts', { source_agent_id: id }, 404);
    expect(agentListSchema.parse((await ada.get('/agents', 200)).body).items.map((agent) => agent.id)).not.include(id);
    expect(await readDraft(ada, draft.id)).to.deep.equal(draft);
  });

  it('204: keeps the chats readable but closed to new messages', async () => {
    const agentId = await newAgent({ visibility: 'org_level' });
    const { chat_id } = await ask(grace, { agent_id: agentId, message: 'Hello?', enable_rag: false }, 201);
    await ada.delete(`/agents/${agentId}`, 204);
    const { body } = await grace.get(`/chat/${chat_id}`, 200);
    expect(body).to.deep.include({ agent_deleted: true });
    expect(Object(body).messages).to.have.length.above(1);
    for (const path of ['/chat', '/chat/stream']) {
      expect((await grace.post(path, { chat_id, message: 'Still there?' }, 409)).body).include({
        code: 'agent_deleted',
      });
    }
    const another = await grace.post('/chat', { agent_id: agentId, message: 'Hello?' }, 404);
    expect(another.body).to.include({ code: 'agent_not_found' });
  });

  it('204: frees a place in the agent limit of the organization', async () => {
    const { db } = shared.container;
    const member = await shared.signUp();
    const draft = await aDraft(member);
    const ids = [];
    for (let made = 0; made < shared.config.tierLimits.free.agents; made += 1) {
      ids.push((await anAgentOfDraft(member, draft)).id);
    }
    await member.post(`/agent-drafts/${draft.id}/publish`, { version_id: draft.head_version_id }, 409);
    await member.delete(`/agents/${ids[0]}`, 204);
    await anAgentOfDraft(member, draft);
    expect(await db('agents').where({ orgId: member.orgId })).to.have.length(ids.length + 1);
  });

  it('204: lets an org admin delete a shared agent', async () => {
    await ada.delete(`/agents/${await newAgent({ visibility: 'org_level' }, grace)}`, 204);
  });

  it('401: without a token', async () => {
    await shared.anonymous.delete(`/agents/${crypto.randomUUID()}`, 401);
  });

  it('403: rejects users of the agent and admins of its team', async () => {
    const team = await aTeam(ada, [grace]);
    const admin = await aColleague(shared, ada, 'Barbara', { team_id: team, is_team_admin: true });
    const id = await newAgent({ visibility: 'team_level', team_ids: [team] });
    await grace.delete(`/agents/${id}`, 403);
    await admin.delete(`/agents/${id}`, 403);
    await ada.get(`/agents/${id}`, 200);
  });

  it('404: rejects personal agents of others, deleted agents and those of other organizations', async () => {
    const personal = await newAgent({}, grace);
    expect((await ada.delete(`/agents/${personal}`, 404)).body).to.include({ code: 'agent_not_found' });
    await (await shared.signUp('Eve')).delete(`/agents/${personal}`, 404);
    await grace.delete(`/agents/${personal}`, 204);
    await grace.delete(`/agents/${personal}`, 404);
  });
});
