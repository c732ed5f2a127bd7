import { expect } from 'chai';
import { alignmentWorkflowId, anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import { agentListSchema, publishedAgentSchema } from '#src/modules/agents/agents.schema.ts';
import {
  aColleague,
  aDraft,
  anAgentOfDraft,
  aSettledAgentOfDraft,
  ask,
  aTeam,
  clerk,
  readDraft,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { itHoldsTheLimit, post } from '#test/support/concurrent-requests.ts';
import { startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';
import { untilJob } from '#test/support/until-job.ts';
import { untilClosed } from '#test/support/workflow-run.ts';
import { down, up } from '../../../migrations/20261129001000_agents_of_the_default_model.ts';

describe('agents', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  const publish = async (scope: object = {}) =>
    aSettledAgentOfDraft(ada, await aDraft(ada, { ...clerk, tags: ['law'], color: '#00aaff' }), scope);
  const list = async (member: Member) => agentListSchema.parse((await member.get('/agents', 200)).body).items;
  const read = async (member: Member, id: string) => (await member.get(`/agents/${id}`, 200)).body;

  it('are listed newest first, with the content that was published, to the users who may use them', async () => {
    const personal = await publish();
    const shareable = await publish({ visibility: 'org_level' });
    expect(await list(ada)).deep.equal([shareable, personal]);
    expect(await list(grace)).deep.equal([{ ...shareable, can_write: false }]);
    expect(await list(await shared.signUp('Eve'))).deep.equal([]);
  });

  it('can be created with their draft in one request, as a publication of its first version would', async () => {
    const scope = { visibility: 'team_level', team_ids: [await aTeam(ada, [grace])] };
    const { body } = await ada.post('/agents', { ...clerk, ...scope, temperature: 0.2 }, 201);
    const agent = publishedAgentSchema.parse(body);
    const draft = await readDraft(ada, agent.source_draft_id);
    expect(draft).deep.include({ name: clerk.agent_name, next_version_number: 2, ...scope });
    expect(draft.versions).length(1);
    const { id, created_at, updated_at, ...fields } = agent;
    const again = await anAgentOfDraft(ada, draft);
    expect(again).deep.include(fields);
    expect((await list(grace)).map((each) => each.id)).deep.equal([again.id, id]);
    const fork = Object((await grace.post('/agents', { source_agent_id: id, agent_name: 'Ignored' }, 201)).body);
    expect(fork).deep.include({ agent_name: clerk.agent_name, anchor_word_candidates: [], visibility: 'personal' });
  });

  it('are not created in one request, and leave no draft, if the draft or its publication would be rejected', async () => {
    for (const [sent, status, expected] of [
      [{ agent_name: 'Clerk' }, 409, { code: 'not_ready', 'errors[0].path': 'agent_prompt' }],
      [{ ...clerk, visibility: 'team_level' }, 422, { 'errors[0].path': 'team_ids' }],
      [{ ...clerk, chat_model: 'unheard-of' }, 422, { code: 'unknown_model' }],
      [{ source_agent_id: crypto.randomUUID() }, 404, { code: 'agent_not_found' }],
    ] as const) {
      expect((await grace.post('/agents', sent, status)).body).nested.include(expected);
    }
    expect((await grace.get('/agent-drafts', 200)).body).deep.equal({ items: [] });
  });

  // In that test, the limits of agents and drafts are equal, and the draft is counted first.
  itHoldsTheLimit('draft_limit_reached', async (member) => () => post(member, '/agents', clerk));

  it('are ready while their chat model and tools are available', async () => {
    const { id } = await publish();
    for (const [gone, there] of [
      [{ chatModel: 'unheard-of' }, { chatModel: shared.config.models.chatModel }],
      [{ enabledTools: ['no.such.tool'] }, { enabledTools: [] }],
    ]) {
      await shared.container.db('agents').where({ id }).update(gone);
      expect(await read(ada, id)).include({ ready: false });
      await shared.container.db('agents').where({ id }).update(there);
      expect(await read(ada, id)).include({ ready: true });
    }
  });

  it('can get new display fields and tools; fields that are not sent keep their values', async () => {
    const agent = await publish();
    const change = { agent_name: 'Notary', tags: [], icon_name: 'scale', enabled_tools: [] };
    const { body } = await ada.patch(`/agents/${agent.id}`, change, 200);
    expect(body).deep.equal({ ...agent, ...change, updated_at: Object(body).updated_at });
    expect(body).not.include({ updated_at: agent.updated_at });
    const { body: cleared } = await ada.patch(`/agents/${agent.id}`, { color: '', icon_name: null }, 200);
    expect(cleared).include({ agent_name: 'Notary', color: null, icon_name: null });
  });

  it('reject a change of a published field, such as the prompt, with 422 `immutable`', async () => {
    const { id, ...published } = await publish();
    for (const field of [
      ...(['agent_prompt', 'chat_model', 'temperature', 'max_tokens', 'visibility', 'team_ids'] as const),
      ...(['user_off_topic_streak_threshold', 'user_on_topic_streak_threshold'] as const),
    ]) {
      const { body } = await ada.patch(`/agents/${id}`, { agent_name: 'x', [field]: published[field] }, 422);
      expect(body).nested.include({ 'errors[0].path': field, 'errors[0].code': 'immutable' });
    }
    const { body } = await ada.patch(`/agents/${id}`, { anchor_words: null }, 422);
    expect(body).include({ detail: 'anchor_words: is immutable: publish another version instead' });
    expect(await read(ada, id)).deep.equal({ id, ...published });
  });

  it('are deleted for all users, while the draft stays and their chats can be read but not continued', async () => {
    const draft = await aDraft(ada);
    const { id } = await anAgentOfDraft(ada, draft, { visibility: 'org_level' });
    const { chat_id } = await ask(grace, { agent_id: id, message: 'Hello?', enable_rag: false }, 201);
    // Only the user who started the chat may read it.
    expect(await read(grace, id)).include({ has_chats: true });
    expect(await read(ada, id)).include({ has_chats: false });
    await ada.delete(`/agents/${id}`, 204);
    for (const member of [ada, grace]) {
      await member.get(`/agents/${id}`, 404);
      expect(await list(member)).deep.equal([]);
    }
    await ada.delete(`/agents/${id}`, 404);
    await ada.post('/agent-drafts', { source_agent_id: id }, 404);
    expect(await readDraft(ada, draft.id)).deep.equal(draft);

    const { body } = await grace.get(`/chat/${chat_id}`, 200);
    expect(body).include({ agent_deleted: true });
    expect(Object(body).messages).length(2);
    for (const path of ['/chat', '/chat/stream']) {
      const closed = await grace.post(path, { chat_id, message: 'Still there?' }, 409);
      expect(closed.body).include({ code: 'agent_deleted' });
      const another = await grace.post(path, { agent_id: id, message: 'Hello?' }, 404);
      expect(another.body).include({ code: 'agent_not_found' });
    }
  });

  it('free a place in the agent limit of the organization when they are deleted', async () => {
    const draft = await aDraft(ada);
    const { id } = await anAgentOfDraft(ada, draft);
    for (let made = 1; made < shared.config.tierLimits.free.agents; made += 1) await anAgentOfDraft(ada, draft);
    await ada.post(`/agent-drafts/${draft.id}/publish`, { version_id: draft.head_version_id }, 409);
    await ada.delete(`/agents/${id}`, 204);
    await anAgentOfDraft(ada, draft);
  });
});

describe('agents of a deployment that gets another default model', () => {
  it('use the new default model if they have none of their own', async () => {
    const model = await startScriptedModel();
    model.offer([{ id: 'older' }, { id: 'newer' }]);
    const before = await startStack({ ...model.settings, CHAT_MODEL: 'older' }, { workers: false });
    const after = await startStack({ ...before.settings, CHAT_MODEL: 'newer' });
    try {
      const ada = await before.signUp();
      const now = ada.at(after.baseUrl);
      const follower = await anAgentOfDraft(ada, await aDraft(ada));
      expect(follower).include({ chat_model: 'older', chosen_chat_model: null });
      const chooser = await anAgentOfDraft(ada, await aDraft(ada, { ...clerk, chat_model: 'older' }));
      const orphan = await aDraft(ada);
      const { id: orphanId } = await anAgentOfDraft(ada, orphan);
      await ada.delete(`/agent-drafts/${orphan.id}`, 204);
      // Agents of older releases, which copied the default model.
      await down(before.container.db);
      await up(before.container.db);

      const read = async (id: string) => (await now.get(`/agents/${id}`, 200)).body;
      expect(await read(follower.id)).include({ chat_model: 'newer', chosen_chat_model: null, ready: true });
      expect(await read(chooser.id)).include({ chat_model: 'older', chosen_chat_model: 'older' });
      expect(await read(orphanId)).include({ chosen_chat_model: 'extractive-1', ready: false });
      const fork = await aDraft(now, { source_agent_id: follower.id });
      expect(fork.versions[0]).include({ chat_model: null });

      const wordsFor = [follower.id, chooser.id, orphanId].map(anchorWordsWorkflowId);
      await Promise.all(wordsFor.map((job) => untilJob(now, job, 'succeeded')));
      expect(model.anchorRequests.map((request) => request.model)).include.members(['newer', 'older']);
      model.calls.splice(0);

      const usedFor = async (agent_id: string) => {
        const sent = { agent_id, message: 'What is a tax?', enable_rag: false };
        const { model: answeredBy, chat_id } = await ask(now, sent, 201);
        await untilClosed(after.container, alignmentWorkflowId(chat_id));
        await now.post('/anchor-words/expand', { agent_id }, 200);
        const asked = model.calls.splice(0).filter(({ path }) => path === '/chat/completions');
        return [answeredBy, ...asked.map(({ body }) => Object(body).model)];
      };
      // The response, and the model's calls for the reply, the title of the chat and the words.
      expect(await usedFor(follower.id)).deep.equal(['newer', 'newer', 'newer', 'newer']);
      expect(await usedFor(chooser.id)).deep.equal(['older', 'older', 'older', 'older']);
    } finally {
      await after.close();
      await before.close();
      await model.close();
    }
  });
});
