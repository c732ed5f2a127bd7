import { expect } from 'chai';
import type { AlignmentEvent } from '#src/domain/alignment/events.ts';
import { loggedRoundSchema } from '#src/modules/logs/logs.schema.ts';
import { aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

type Page = { items: { id: string; title: string }[]; next_cursor: string | null; total: number };

describe('chats', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
  });
  beforeEach(() => stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.' })));

  const newChat = (fields: object = {}, headers: Record<string, string> = {}) =>
    ask(ada, { agent_id: agentId, message: 'How is a loan repaid?', ...fields }, 201, headers);

  it('are listed to users who may read them, newest change first, in pages and by agent', async () => {
    const grace = await stack.signUp('Grace');
    const agent_id = await aPublishedAgent(grace);
    const ids: string[] = [];
    for (const message of ['First?', 'Second?', 'Third?']) {
      ids.unshift((await ask(grace, { agent_id, message }, 201)).chat_id);
    }
    const list = async (query = ''): Promise<Page> => (await grace.get(`/chat${query}`, 200)).body as Page;
    const idsOf = ({ items }: Page) => items.map(({ id }) => id);
    const all = await list();
    expect([idsOf(all), all.total, all.next_cursor]).deep.equal([ids, 3, null]);
    const first = await list('?limit=2');
    const second = await list(`?limit=2&cursor=${first.next_cursor}`);
    expect([...idsOf(first), ...idsOf(second)]).deep.equal(ids);
    expect(second.next_cursor).equal(null);
    expect((await list(`?agent_id=${await aPublishedAgent(grace)}`)).total).equal(0);
    expect((await list(`?agent_id=${agent_id}&mine=true`)).total).equal(3);
    const mixed = await grace.get(`/chat?mine=true&cursor=${first.next_cursor}`, 400);
    expect(mixed.body).include({ code: 'invalid_cursor' });
    const stranger = await stack.signUp('Eve');
    expect((await stranger.get('/chat', 200)).body).deep.include({ items: [], total: 0 });
  });

  it('can be renamed by their user, also with an ETag from before a round was scored', async () => {
    const { chat_id, postprocess_job_id } = await newChat();
    const etag = (await ada.get(`/chat/${chat_id}`, 200)).headers.get('etag') ?? '';
    await untilRun(ada, postprocess_job_id, 'succeeded');
    const { body } = await ada.patch(`/chat/${chat_id}`, { title: '  My loan ' }, 200, { 'if-match': etag });
    expect(body).include({ id: chat_id, title: 'My loan', round: 1 });
  });

  it('can be exported as Markdown by default (also in ranges: 206, 416), as JSON, and in no other format (400)', async () => {
    const { chat_id } = await newChat();
    const path = `/chat/${chat_id}/export`;
    await ada.patch(`/chat/${chat_id}`, { title: 'Loans / of "mine"' }, 200);
    stack.model.behave(() => ({ kind: 'status', status: 400 }));
    await ada.post('/chat', { chat_id, message: 'And a mortgage?' }, 502);
    stack.model.behave(() => ({ kind: 'answer', text: 'Over many *years*.' }));
    await ask(ada, { chat_id, message: 'For how long?' }, 200);

    const { body, headers } = await ada.get(path, 200);
    expect(headers.get('content-type')).equal('text/markdown; charset=utf-8');
    expect(headers.get('content-disposition')).match(/^attachment; /);
    const [{ created_at }] = Object((await ada.get('/chat', 200)).body).items;
    const parts = [
      ...['# Loans / of "mine"', `Agent: Loans  \nDate: ${created_at.slice(0, 10)}`],
      ...['## User', 'How is a loan repaid?', '## Assistant', 'Month by month.'],
      ...['## User', 'And a mortgage?', '## Assistant', '*No answer (model_rejected).*'],
      ...['## User', 'For how long?', '## Assistant', 'Over many *years*.\n'],
    ];
    expect(body).equal(parts.join('\n\n'));
    expect((await ada.get(`${path}?format=markdown`, 200)).body).equal(body);
    expect((await ada.get(path, 206, { range: 'bytes=2-6' })).body).equal('Loans');
    await ada.get(path, 416, { range: 'bytes=100000-' });

    const json = await ada.get(`${path}?format=json`, 200);
    expect(json.headers.get('content-type')).equal('application/json; charset=utf-8');
    expect(json.body).include({ agent: 'Loans', title: 'Loans / of "mine"', created_at });
    const { turns } = json.body as { turns: { role: string; content: string }[] };
    expect(turns.map(({ role, content }) => `${role}: ${content}`)).deep.equal([
      ...['user: How is a loan repaid?', 'assistant: Month by month.', 'user: And a mortgage?'],
      ...['user: For how long?', 'assistant: Over many *years*.'],
    ]);
    const refused = await ada.get(`${path}?format=pdf`, 400);
    expect(refused.body).include({ code: 'unsupported_export_format' });
  });

  it('are deleted with their rounds, jobs and stored responses; other stored responses stay', async () => {
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const note = { name: 'Note', content: 'Kept.', source_format: 'text' };
    const { body } = await ada.post('/documents/paste', note, 201, headers);
    const { chat_id, postprocess_job_id } = await newChat({}, headers);
    await ada.delete(`/chat/${chat_id}`, 204);
    await ada.get(`/chat/${chat_id}`, 404);
    await ada.get(`/jobs/${postprocess_job_id}`, 404);
    for (const path of ['/chat', '/chat/stream']) await ada.post(path, { chat_id, message: 'Still there?' }, 404);
    await ada.delete(`/chat/${chat_id}`, 404);
    // The same key is answered anew, not by the response that was stored for the deleted chat.
    const { chat_id: again } = await newChat({}, headers);
    await ada.get(`/chat/${again}`, 200);
    expect((await ada.post('/documents/paste', note, 201, headers)).body).include({ id: Object(body).id });
  });

  it('can be deleted during an answer: the stream ends with an error, and the answer is not stored', async () => {
    const { chat_id } = await newChat();
    const finish = Promise.withResolvers<void>();
    stack.model.behave(() => ({ kind: 'answer', text: 'It is written in vain.', until: finish.promise }));
    const events = await openChatStream(ada, { chat_id, message: 'And then?' });
    await events.next();
    await ada.delete(`/chat/${chat_id}`, 204);
    finish.resolve();
    expect((await collect(events)).at(-1)).property('event', 'error');
    await ada.get(`/chat/${chat_id}`, 404);
  });
});

const persona = 'You help the customers of a bank with their loans.';
const onTopic = {
  asks: 'What is the interest rate and the monthly payment of a mortgage loan at the bank?',
  says: 'The interest rate of the mortgage loan sets the monthly payment and the repayment of the credit.',
};
const strayQuestions = [
  'Tell me about penguins and their eggs in Antarctica',
  'Which football team won the world cup in Brazil?',
  'What is the best recipe for tomato soup with basil?',
] as const;
const strayReply = 'Penguins are birds of the southern seas that eat fish.';

describe('a chat that drifts off its topic', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let chatId: string | undefined;

  beforeEach(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    chatId = undefined;
  });

  /** Sends a message and waits for the scores of its round. */
  async function round(message: string = onTopic.asks, reply: string = onTopic.says) {
    stack.model.behave(() => ({ kind: 'answer', text: reply }));
    const chat = chatId === undefined ? { agent_id: await aPublishedAgent(ada) } : { chat_id: chatId };
    const answer = await ask(ada, { ...chat, message, enable_rag: false }, chatId === undefined ? 201 : 200);
    chatId = answer.chat_id;
    const prompt = stack.model.requests[0]?.messages ?? [];
    await untilJob(ada, answer.postprocess_job_id, 'succeeded');
    const index = answer.postprocess_job_id.split('.').at(-1);
    const { body } = await ada.get(`/logs/conversations/${chatId}/rounds/${index}`, 200);
    const { state, events } = loggedRoundSchema.parse(body).round;
    const dataOf = (wanted: AlignmentEvent['type']) => events.find(({ type }) => type === wanted)?.data;
    return {
      state,
      types: events.map(({ type }) => type),
      steering: dataOf('steering_applied'),
      prunes: dataOf('messages_pruned'),
      system: prompt[0]?.content,
      asked: prompt.filter(({ role }) => role === 'user').map(({ content }) => content),
    };
  }
  const unsteered = { system: persona, steering: undefined };

  it('is watched, then steered back until it is on topic again; its off-topic rounds are pruned', async () => {
    expect(await round()).include({ state: 'stable', ...unsteered });

    const second = await round(strayQuestions[0]);
    expect(second).include({ state: 'watch', ...unsteered });
    expect(second.types).include.members(['topic_off', 'watch_entered']);

    const third = await round(strayQuestions[1]);
    expect(third).deep.include({ state: 'watch', steering: { level: 'soft' } });
    expect(third.system).match(/^You help .*\n\nScope: loan, mortgage, interest rate, /);

    const fourth = await round(strayQuestions[2], strayReply);
    expect(fourth).deep.include({ state: 'drift_user', steering: { level: 'soft' } });
    expect(fourth.types).include('drift_started');
    expect(fourth.prunes).deep.equal({ message_ids: ['2:user', '2:assistant', '3:user', '3:assistant'] });

    const fifth = await round();
    expect(fifth).deep.include({ state: 'drift_recovering', steering: { level: 'strong' } });
    expect(fifth.system?.split(persona)).length(3);
    expect(fifth.system).include('The last 3 user messages were out of scope');
    expect(fifth.asked).deep.equal([onTopic.asks, strayQuestions[2], onTopic.asks]);
    expect(fifth.types).include('recovering');

    const sixth = await round();
    expect(sixth).deep.include({ state: 'stable', steering: { level: 'soft' } });
    expect(sixth.asked).not.include(strayQuestions[0]);
    expect(sixth.types).include('drift_resolved');

    const seventh = await round();
    expect(seventh).include({ state: 'stable', ...unsteered });
    expect(seventh.asked).include(strayQuestions[2]).and.not.include(strayQuestions[1]);

    const { messages } = Object((await ada.get(`/chat/${chatId}`, 200)).body);
    const { turns } = Object((await ada.get(`/chat/${chatId}/export?format=json`, 200)).body);
    const pruned = [strayQuestions[0], onTopic.says, strayQuestions[1], onTopic.says];
    for (const kept of [messages, turns] as { content: string; pruned: boolean }[][]) {
      expect(kept).length(14);
      expect(kept.filter((each) => each.pruned).map(({ content }) => content)).deep.equal(pruned);
    }
  });
});
