import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { chatHistorySchema, chatListSchema } from '#src/modules/chat/chat.schema.ts';
import {
  aColleague,
  aDraft,
  anIngestedDocument,
  aPublishedAgent,
  ask,
  clerk,
  commitVersion,
  streamAnswer,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { downloaded, exportOf, recordsOf, unpack } from '#test/support/exported.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

const message = 'How is a loan repaid?';

describe('a chat with a draft version', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let grace: Member;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    grace = await aColleague(stack, ada);
  });
  beforeEach(() => stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.' })));

  const personaAsked = () => stack.model.requests.at(-1)?.messages[0]?.content;
  const newDraft = (fields: object = {}) => aDraft(ada, { ...clerk, ...fields });
  const listed = async (query = '', member = ada) =>
    chatListSchema.parse((await member.get(`/chat?${query}`, 200)).body).items;
  const read = async (path: string, member = ada) => Object((await member.get(path, 200)).body);
  async function aChat(draft_version_id: string, fields: object = {}, headers = {}) {
    return ask(ada, { draft_version_id, message, ...fields }, 201, headers);
  }

  it('answers its author as that version, also after later versions, and from documents', async () => {
    const document = await anIngestedDocument(ada, 'Terms', 'A loan is repaid month by month.');
    const reply = 'A loan is repaid month by month [1].';
    stack.model.behave(() => ({ kind: 'answer', text: reply }));
    const { id, head_version_id } = await newDraft({ anchor_words: {} });
    const { answer } = await streamAnswer(ada, { draft_version_id: head_version_id, message });
    expect(answer).include({ reply, title: message });
    expect(answer.citations.map(({ document_id }) => document_id)).deep.equal([document]);
    expect(personaAsked()).equal(clerk.agent_prompt);

    const changed = { parent_version_id: head_version_id, agent_prompt: 'Answer at length.' };
    const later = await commitVersion(ada, id, changed);
    const { chat_id } = answer;
    const again = { chat_id, message: 'And then?' };
    expect((await ask(ada, { ...again, draft_version_id: head_version_id }, 200)).chat_id).equal(chat_id);
    expect(personaAsked()).equal(clerk.agent_prompt);
    const { body } = await ada.post('/chat', { ...again, draft_version_id: later.id }, 422);
    expect(body).nested.include({ 'errors[0].path': 'draft_version_id' });
    await aChat(later.id);
    expect(personaAsked()).equal('Answer at length.');
  });

  it('is not scored, which every representation says, and has no job', async () => {
    const { id: draft_id, head_version_id } = await newDraft();
    const { chat_id, echo, postprocess_job_id } = await aChat(head_version_id);
    expect(echo).include({ state: 'stable', round: 0 });
    expect(postprocess_job_id).equal('');
    const of = { agent_id: draft_id, draft_version_id: head_version_id, echo_scoring_pending: false };
    const [summary, ...others] = await listed(`agent_id=${draft_id}`);
    expect([summary?.id, others]).deep.equal([chat_id, []]);
    expect(summary).include(of);
    const history = chatHistorySchema.parse(await read(`/chat/${chat_id}`));
    expect(history).include({ ...of, agent_deleted: false });
    const renamed = await ada.patch(`/chat/${chat_id}`, { title: 'A try' }, 200);
    expect(renamed.body).include({ ...of, title: 'A try' });
    expect((await ada.get(`/chat/${chat_id}/export`, 200)).body).include('Agent: Clerk');
    expect((await read('/jobs')).items.map(({ kind }: { kind: string }) => kind)).not.include('alignment');
    // A chat with an agent names no version.
    const { chat_id: other } = await ask(ada, { agent_id: await aPublishedAgent(ada), message }, 201);
    expect(await read(`/chat/${other}`)).include({ draft_version_id: null });
  });

  it('can be started by the owner of the draft only (403, or 404 if the caller cannot read it), and is personal', async () => {
    const { head_version_id: draft_version_id } = await newDraft({ visibility: 'org_level' });
    const { head_version_id: personal } = await newDraft();
    const eve = await stack.signUp('Eve');
    for (const path of ['/chat', '/chat/stream']) {
      const refusedTo = async (member: Member, id: string, status: number) =>
        Object((await member.post(path, { draft_version_id: id, message }, status)).body).code;
      expect(await refusedTo(grace, draft_version_id, 403)).equal('forbidden');
      expect(await refusedTo(grace, personal, 404)).equal('version_not_found');
      expect(await refusedTo(eve, draft_version_id, 404)).equal('version_not_found');
      expect(await refusedTo(ada, randomUUID(), 404)).equal('version_not_found');
    }
    const { chat_id } = await aChat(draft_version_id);
    await grace.get(`/chat/${chat_id}`, 404);
    await grace.post('/chat', { chat_id, message }, 404);
    expect(await listed('', grace)).deep.equal([]);
  });

  it('is rejected with another agent or a visibility (422), and without a prompt or an offered model (409)', async () => {
    const { id, head_version_id: draft_version_id } = await newDraft();
    for (const [fields, path] of [
      [{ agent_id: await aPublishedAgent(ada) }, 'draft_version_id'],
      [{ visibility: 'org_level' }, 'visibility'],
      [{ team_ids: [] }, 'team_ids'],
    ] as const) {
      const { body } = await ada.post('/chat', { draft_version_id, message, ...fields }, 422);
      expect(body).nested.include({ 'errors[0].path': path });
    }
    const { chat_id } = await aChat(draft_version_id);
    const withAgent = await ada.post('/chat', { chat_id, message, agent_id: await aPublishedAgent(ada) }, 422);
    expect(withAgent.body).nested.include({ 'errors[0].path': 'agent_id' });
    const blank = await commitVersion(ada, id, { parent_version_id: draft_version_id, agent_prompt: ' ' });
    const { body } = await ada.post('/chat', { draft_version_id: blank.id, message }, 409);
    expect(body).nested.include({ code: 'not_ready', 'errors[0].path': 'agent_prompt' });
    await stack.container.db('draftVersions').where({ id: draft_version_id }).update({ chatModel: 'unheard-of' });
    const withdrawn = await ada.post('/chat', { chat_id, message }, 409);
    expect(withdrawn.body).nested.include({ code: 'not_ready', 'errors[0].path': 'chat_model' });
  });

  it('is marked in the logs, and left out of statistics and usage', async () => {
    const olga = await stack.signUp('Olga');
    const agent_id = await aPublishedAgent(olga);
    await ask(olga, { agent_id, message }, 201);
    const before = await read('/logs/stats', olga);
    expect(before).include({ total_chats: 1, total_rounds: 1 });
    const { id: draft_id, head_version_id: draft_version_id } = await aDraft(olga, clerk);
    const { chat_id } = await ask(olga, { draft_version_id, message }, 201);

    for (const period of ['', '?date_from=2020-01-01', `?date_from=${new Date().toISOString().slice(0, 10)}`]) {
      expect(await read(`/logs/stats${period}`, olga), period).deep.equal(before);
    }
    expect(await read(`/logs/stats?agent_id=${draft_id}`, olga)).include({ total_chats: 0, total_rounds: 0 });
    expect((await read('/logs/agents', olga)).map(({ id }: { id: string }) => id)).deep.equal([agent_id]);
    const { items, total } = await read('/logs/conversations?include_total=true', olga);
    expect(items.map(({ is_draft }: { is_draft: boolean }) => is_draft)).deep.equal([true, false]);
    expect(total).equal(2);
    expect(items[0]).include({ id: chat_id, agent_id: draft_id, agent: 'Clerk', total_rounds: 1, avg_ewma: null });
    const session = await read(`/logs/conversations/${chat_id}`, olga);
    expect(session.session).include({ agent: 'Clerk', is_draft: true, run_id: '' });
    expect(session.round_summaries[0]).include({ scoring_pending: false, state: null });
    expect(await read(`/logs/conversations/${chat_id}/rounds/1`, olga)).include({ scoring_pending: false });
    expect((await read('/logs/recent', olga)).map(({ id }: { id: string }) => id)).include(chat_id);
    const lines = (await (await olga.raw('/logs/export?format=jsonl')).text())
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.map(({ is_draft, scoring_pending }) => [is_draft, scoring_pending])).deep.equal([
      [true, false],
      [false, false],
    ]);

    const files = await unpack(await downloaded((await exportOf(olga)).volumes));
    const exported = recordsOf(files, 'chats').map((chat) => [chat.agent_id, chat.draft_version_id]);
    expect(exported).have.deep.members([
      [agent_id, null],
      [draft_id, draft_version_id],
    ]);
    expect(recordsOf(files, 'usage').map(({ rounds }) => rounds)).deep.equal([1]);
  });

  it('is deleted with its version or its draft, and with it what was kept for its Idempotency-Key', async () => {
    const { id, head_version_id: root } = await newDraft();
    const key = randomUUID();
    const rooted = await aChat(root, {}, { 'idempotency-key': key });
    const { db } = stack.container;
    const repeated = () => aChat(root, {}, { 'idempotency-key': key });
    expect(await repeated()).deep.equal(rooted);
    // As after a crash before the response was stored.
    await db('idempotencyKeys').where({ key }).delete();
    expect(await repeated()).deep.equal(rooted);
    const kept = () => db('idempotencyKeys').where({ key }).pluck('key');
    expect(await kept()).deep.equal([key]);
    const second = await commitVersion(ada, id, { parent_version_id: root });
    const third = await commitVersion(ada, id, { parent_version_id: second.id });
    const chats = [await aChat(second.id), await aChat(third.id)];
    await ada.delete(`/agent-drafts/${id}/versions/${second.id}`, 204);
    await ada.get(`/chat/${chats[0]?.chat_id}`, 404);
    await commitVersion(ada, id, { parent_version_id: root, force: true });
    await ada.get(`/chat/${chats[1]?.chat_id}`, 404);
    await ada.get(`/chat/${rooted.chat_id}`, 200);
    await ada.delete(`/agent-drafts/${id}`, 204);
    await ada.get(`/chat/${rooted.chat_id}`, 404);
    expect(await kept()).deep.equal([]);
    expect(await listed(`agent_id=${id}`)).deep.equal([]);
    expect(await db('rounds').where({ chatId: rooted.chat_id })).deep.equal([]);
    expect(await db('chatLogs').where({ agentId: id })).deep.equal([]);
    expect(await db('logTotals').where({ agentId: id })).deep.equal([]);
  });
});
