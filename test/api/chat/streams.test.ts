import { expect } from 'chai';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { aColleague, aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import { type Member, readEvents, type StreamEvent } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const kinds = (events: StreamEvent[]) => events.map(({ event }) => event);
const tokensOf = (events: StreamEvent[]) =>
  events.flatMap(({ event, data }) => (event === 'token' ? [(data as { t: string }).t] : []));
const json = { 'content-type': 'application/json' };

describe('the stream of an answer', () => {
  let stack: ScriptedStack;
  /** Another process of the API on the same database. */
  let replica: Stack;
  let ada: Member;
  let agentId: string;
  /** Ends answers that are held. */
  let finish = Promise.withResolvers<void>();

  before(async () => {
    stack = await scriptedStack();
    replica = await startStack({ ...stack.settings, PORT: '0' }, { workers: false });
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
  });
  after(() => replica.close());
  beforeEach(() => {
    finish = Promise.withResolvers();
    answer('A loan is repaid month by month.');
  });
  afterEach(() => finish.resolve());

  const answer = (text: string | string[]) => stack.model.behave(() => ({ kind: 'answer', text }));
  /** Holds all but the first word back until the answer may finish. */
  const hold = (text: string | string[] = 'Month by month.') =>
    stack.model.behave(() => ({ kind: 'answer', text, until: finish.promise }));
  const breakOff = () => stack.model.behave(() => ({ kind: 'break_off', text: 'A loan is' }));
  const newChat = async () => (await ask(ada, { agent_id: agentId, message: 'How?' }, 201)).chat_id;
  const stream = async (chatId: string) =>
    collect(await openChatStream(ada, { chat_id: chatId, message: 'And then?' }));
  const roundOf = (chatId: string, round: number) => stack.container.db('rounds').where({ chatId, round }).first();
  /** Asks another process for the stream. */
  const replay = (chatId: string, lastEventId?: string) =>
    ada.at(replica.baseUrl).raw(`/chat/${chatId}/stream`, {
      headers: lastEventId === undefined ? {} : { 'last-event-id': lastEventId },
    });
  const replayed = async (chatId: string, lastEventId?: string) =>
    collect(readEvents(await replay(chatId, lastEventId)));

  it('has tokens numbered by round and position, and ends with `done` and the whole answer', async () => {
    const events = await stream(await newChat());
    expect(events.map(({ id }) => id)).deep.equal(events.map((_, index) => `2:${index + 1}`));
    expect(events.length).above(2);
    expect(new Set(kinds(events).slice(0, -1))).deep.equal(new Set(['token']));
    expect(events.at(-1)?.event).equal('done');
    const { reply } = chatMessageSchema.parse(events.at(-1)?.data);
    expect(reply).equal(tokensOf(events).join('')).and.equal('A loan is repaid month by month.');
  });

  it('is stored as a whole when the client disconnects, and sent again for the same Idempotency-Key', async () => {
    hold();
    const leaving = new AbortController();
    const message = { agent_id: agentId, message: 'How is a loan repaid?' };
    const headers = { ...json, 'idempotency-key': crypto.randomUUID() };
    const events = await openChatStream(ada, message, { headers, signal: leaving.signal });
    // The first word is sent before the model has written the last.
    expect((await events.next()).value).deep.include({ event: 'token', data: { t: 'Month' } });
    leaving.abort();
    finish.resolve();
    const again = await until('the key is free', async () => {
      const init = { method: 'POST', headers, body: JSON.stringify(message) };
      const response = await ada.raw('/chat/stream', init);
      return response.status === 200 && response;
    });
    const all = await collect(readEvents(again));
    expect(kinds(all)).deep.equal(['token', 'token', 'token', 'done']);
    const { reply, chat_id } = chatMessageSchema.parse(all.at(-1)?.data);
    expect([tokensOf(all).join(''), reply]).deep.equal(['Month by month.', 'Month by month.']);
    expect(await roundOf(chat_id, 1)).include({ assistantReply: 'Month by month.' });
    expect(stack.model.requests).length(1);
  });

  const pieces = (...texts: string[]): string =>
    texts.map((content) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`).join('');

  it('has all text that the model wrote before it broke off, and the error last', async () => {
    // A citation, an address or an image might follow.
    for (const text of ['A loan is ', 'A loan is explained at http', 'A loan is repaid!']) {
      answer('Month by month.');
      const chatId = await newChat();
      stack.model.behave(() => ({ kind: 'raw', body: pieces(text), ends: true }));
      const events = await stream(chatId);
      expect(tokensOf(events).join('')).equal(text);
      const { lastSeq } = await roundOf(chatId, 2);
      expect(events.at(-1)).include({ event: 'error', id: `2:${lastSeq}` });
      expect((await replay(chatId, `2:${lastSeq}`)).status).equal(204);
    }
  });

  it('is the same from another API process, while the answer is written and afterwards', async () => {
    const chatId = await newChat();
    hold(Array.from({ length: 40 }, (_, index) => `word${index} "é" `));
    const body = JSON.stringify({ chat_id: chatId, message: 'And then?' });
    const response = await ada.raw('/chat/stream', { method: 'POST', body, headers: json });
    expect(response.headers.get('content-location')).equal(`/chat/${chatId}/stream`);
    const second = await replay(chatId);
    finish.resolve();
    const [sent, same] = await Promise.all([response.text(), second.text()]);
    expect(sent).match(/event: done/);
    expect(same).equal(sent);
    expect(await (await replay(chatId)).text()).equal(sent);
  });

  it('resumes after Last-Event-ID; 204 after the last event, so that browsers stop reconnecting', async () => {
    const chatId = await newChat();
    const first = await replayed(chatId);
    expect(first[0]?.id).equal('1:1');
    const all = await stream(chatId);
    expect(await replayed(chatId, all[2]?.id)).deep.equal(all.slice(3));
    expect((await replay(chatId, all.at(-1)?.id)).status).equal(204);
    expect(await replayed(chatId, '1:1'), 'of an older answer').deep.equal(first.slice(1));
  });

  it('has only its last event once the stored events are deleted', async () => {
    const chatId = await newChat();
    // The replayed event has the chat's current title: a user's title does not change in between.
    await ada.patch(`/chat/${chatId}`, { title: 'Mine' }, 200);
    const all = await stream(chatId);
    const { db, chat } = stack.container;
    const stored = () => db('round_events').where({ chatId });
    const { streamId, lastSeq } = await roundOf(chatId, 2);
    await until('its events are stored', () => stored().where({ streamId, lastSeq }).first());
    await stored().update({ createdAt: new Date(0) });
    await chat.forgetEvents();
    expect(await stored(), 'events of a recent answer are kept').not.deep.equal([]);
    const finishedAt = new Date(0);
    await db('rounds').where({ chatId }).update({ finishedAt });
    await chat.forgetEvents();
    expect(await stored()).deep.equal([]);
    expect(await replayed(chatId)).deep.equal([all.at(-1)]);
    expect((await replay(chatId, all.at(-1)?.id)).status).equal(204);
  });

  it('repeats the error of a failed answer, whose text is not kept, also after a later attempt', async () => {
    const chatId = await newChat();
    breakOff();
    const failed = await stream(chatId);
    expect(kinds(failed)).deep.equal(['token', 'error']);
    expect(failed.at(-1)?.data).property('detail').a('string');
    expect(Object((await ada.get(`/chat/${chatId}`, 200)).body).messages).length(3);
    expect(await replayed(chatId)).deep.equal(failed);
    expect((await replay(chatId, failed.at(-1)?.id)).status).equal(204);

    answer('Another answer.');
    const again = await stream(chatId);
    const late = await replayed(chatId, failed[0]?.id);
    expect(late.map(({ event, data }) => [event, Object(data).code])).deep.equal([['error', 'interrupted']]);
    expect((await replay(chatId, late[0]?.id)).status).equal(204);
    expect(await replayed(chatId)).deep.equal(again);
  });

  it('ends with an error after the process that wrote the answer died', async () => {
    const chatId = await newChat();
    hold(['Half an ', 'answer.']);
    const sent = await openChatStream(ada, { chat_id: chatId, message: 'And then?' });
    await sent.next();
    const { db } = stack.container;
    const stored = db('round_events').where({ chatId }).whereRaw(`events like '%Half%'`);
    await until('the first words are stored', () => stored.clone().first());
    const following = replayed(chatId);
    const lost = { leaseOwner: crypto.randomUUID(), leaseExpiresAt: new Date(0) };
    await db('rounds').where({ chatId, round: 2 }).update(lost);
    await until('the sweeper has ended it', async () => (await roundOf(chatId, 2)).status === 'error');
    const events = await following;
    expect(kinds(events)).deep.equal(['token', 'error']);
    expect(events.at(-1)).include({ id: '2:10000000' });
    expect(events.at(-1)?.data).property('code', 'interrupted');
    expect((await replay(chatId, '2:10000000')).status).equal(204);
    const ahead = await replayed(chatId, '2:7');
    expect(ahead, 'for a reader that got more events than were stored').deep.equal(events.slice(-1));
    // The process is alive after all, and cannot complete what was ended.
    finish.resolve();
    expect((await collect(sent)).at(-1)).include({ event: 'error' });
    expect(await roundOf(chatId, 2)).include({ status: 'error', assistantReply: null });
  });

  it('is refused with 400 for a Last-Event-ID that names no event', async () => {
    const path = `/chat/${await newChat()}/stream`;
    for (const id of ['x', '1', '1:2:3', '0:1', '99:1', '-1:1']) {
      expect((await ada.get(path, 400, { 'last-event-id': id })).body, id).include({ code: 'malformed_request' });
    }
  });

  it('ends for a user who is removed from the team meanwhile, and goes on for the owner of the chat', async () => {
    hold();
    const admin = await stack.signUp('Grace');
    const { id: team_id } = Object((await admin.post('/entity/teams', { name: 'Red' }, 201)).body);
    const team = { visibility: 'team_level', team_ids: [team_id] };
    const owner = await aColleague(stack, admin, 'Olga', { team_id });
    const bob = await aColleague(stack, admin, 'Bob', { team_id });
    const question = { agent_id: await aPublishedAgent(owner, team), message: 'How is a loan repaid?' };
    const rounds = stack.container.db('rounds').where({ orgId: admin.orgId });
    const endOf = async (events: AsyncIterable<StreamEvent>) =>
      (await collect(events)).map(({ event, data }) => [event, Object(data).code]);

    const own = await openChatStream(owner, { ...question, ...team });
    await own.next();
    const { chatId } = await rounds.clone().first();
    const shared = readEvents(await bob.raw(`/chat/${chatId}/stream`));
    const personal = await openChatStream(bob, question);
    for (const events of [shared, personal]) await events.next();
    // Writes to the database only, as another process of the service would.
    await stack.container.db('team_memberships').where({ userId: bob.userId }).delete();
    expect(await endOf(shared)).deep.equal([['error', 'chat_not_found']]);
    await bob.get(`/chat/${chatId}`, 404);
    // The answer uses the old rights, too.
    expect(await endOf(personal)).deep.equal([['error', 'interrupted']]);
    const ended = await until('the round is over', () => rounds.clone().where({ status: 'error' }).first());
    expect(ended).include({ errorCode: 'interrupted', assistantReply: null, leaseOwner: null });
    finish.resolve();
    expect((await collect(own)).at(-1)?.event).equal('done');
  });
});

describe('an answer with STREAM_ON_DISCONNECT=cancel', () => {
  let scripted: ScriptedStack;
  let stack: Stack;
  let replica: Stack;
  let ada: Member;
  let agent_id: string;
  const finish = Promise.withResolvers<void>();

  before(async () => {
    scripted = await scriptedStack();
    const settings = { OPENAI_BASE_URL: scripted.model.baseUrl, STREAM_ON_DISCONNECT: 'cancel' };
    stack = await startStack(settings, { workers: false });
    replica = await startStack(stack.settings, { workers: false });
    ada = await stack.signUp('Ada');
    agent_id = await aPublishedAgent(ada);
    scripted.model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
  });
  after(async () => {
    await replica.close();
    await stack.close();
  });

  const roundOf = (column: object) => stack.container.db('rounds').where(column).first();
  const post = (path: string, message: string, signal: AbortSignal) =>
    ada.raw(path, { method: 'POST', headers: json, body: JSON.stringify({ agent_id, message }), signal });

  /** Starts an answer and reads its first event. */
  async function begin(): Promise<{ chatId: string; leave: () => void }> {
    const leaving = new AbortController();
    const response = await post('/chat/stream', 'How is a loan repaid?', leaving.signal);
    const [, chatId = ''] = response.headers.get('content-location')?.split(/\/chat\/|\/stream/) ?? [];
    await readEvents(response).next();
    return { chatId, leave: () => leaving.abort() };
  }

  it('is interrupted when its last reader in any process disconnects, but completed if not streamed', async () => {
    // Lets a recorded reader count for ever instead of five seconds, so that the test does not depend on timing.
    await stack.container.db.raw(`
      create function keep_follower() returns trigger language plpgsql as
        $$ begin new.followed_at = 'infinity'; return new; end $$;
      create trigger keep_follower before update of followed_at on rounds
        for each row when (new.followed_at is not null) execute function keep_follower();
    `);
    const { chatId: followed, leave: leaveFollowed } = await begin();
    const reading = collect(readEvents(await ada.at(replica.baseUrl).raw(`/chat/${followed}/stream`)));
    const isFollowed = async () => (await roundOf({ chatId: followed }))?.followedAt !== null;
    await until('the other reader is recorded', isFollowed);
    leaveFollowed();
    const whole = new AbortController();
    const userContent = 'Is it repaid month by month?';
    post('/chat', userContent, whole.signal).catch(() => undefined);
    await until('the model is asked', async () => scripted.model.openStreams() === 2);
    whole.abort();
    // This reader leaves last, but its answer is interrupted first.
    const { chatId: left, leave } = await begin();
    leave();
    const ended = await until('the answer is interrupted', async () => {
      const round = await roundOf({ chatId: left });
      return round?.status !== 'open' && round;
    });
    expect(ended).include({ status: 'error', errorCode: 'interrupted', assistantReply: null });
    await until('the model writes only the other answers', async () => scripted.model.openStreams() === 2);

    finish.resolve();
    expect(kinds(await reading)).deep.equal(['token', 'token', 'token', 'done']);
    const complete = { status: 'complete', assistantReply: 'Month by month.' };
    expect(await roundOf({ chatId: followed })).include(complete);
    await until('the answer of POST /chat is stored', () => roundOf({ userContent, ...complete }));
  });
});
