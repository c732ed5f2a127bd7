import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { addAgent, addChat, addRound } from '#test/support/stored-rows.ts';

type Page = {
  items: { id: string; title: string; description: string; started_at: string }[];
  next_cursor: string | null;
  total: number | null;
};
type Query = Record<string, string>;
const scoredAt = new Date('2026-03-02T10:00:00Z');

// Which chats each user reads, by agent, state and period, is tested in test/activities/logs/statistics.test.ts.
describe('GET /logs/conversations', () => {
  let api: Stack;
  let db: Knex;
  let ada: Member;
  let by: { orgId: string; createdBy: string; agentId: string };

  beforeEach(async () => {
    api = await stack();
    db = api.container.db;
    ada = await api.signUp('Ada');
    by = { orgId: ada.orgId, createdBy: ada.userId, agentId: uuidv7() };
    await addAgent(db, by);
  });

  const list = async (query: Query = {}, reader: Member = ada): Promise<Page> =>
    (await reader.get(`/logs/conversations?${new URLSearchParams(query)}`, 200)).body as Page;
  const titlesOf = ({ items }: Page) => items.map(({ title }) => title);
  const titles = async (query: Query, reader?: Member) => titlesOf(await list(query, reader));
  const add = (title: string, startedAt: string, more: object = {}) =>
    addChat(db, { ...by, ...more }, { title, startedAt: new Date(startedAt), ...more });
  const say = (chatId: string, round: number, userContent: string, columns: object = {}) =>
    addRound(db, { orgId: by.orgId, chatId, round }, { userContent, ...columns });
  /** The pages of a list; at most 40 conversations. */
  async function* pages(query: Query): AsyncIterableIterator<Page> {
    let read = 0;
    for (let cursor: string | null = ''; cursor !== null && read < 40; ) {
      const page: Page = await list({ ...query, ...(cursor !== '' && { cursor }) });
      yield page;
      read += page.items.length;
      cursor = page.next_cursor;
    }
  }

  it('200: lists conversations newest first, each with agent, rounds and mean score', async () => {
    const older = await add('Older', '2026-03-01T10:00:00Z');
    const newer = await add('Newer', '2026-03-02T10:00:00Z');
    const scoredAt = new Date('2026-03-03');
    const long = `How\nis a   loan repaid? ${'Really, '.repeat(40)}`;
    await say(older, 1, long, { ewma: 90, echoState: 'stable', scoredAt });
    await say(older, 2, 'And then?', { ewma: 70, echoState: 'watch', scoredAt });
    await say(older, 3, 'And then?');
    const page = await list();
    expect(page).include({ next_cursor: null, total: null });
    expect(page.items[0]).deep.equal({
      ...{ id: newer, title: 'Newer', description: '', agent_id: by.agentId, agent: 'Loans' },
      ...{ total_rounds: 0, avg_ewma: null, started_at: '2026-03-02T10:00:00.000Z' },
    });
    expect(page.items[1]).include({ id: older, total_rounds: 3, avg_ewma: 80 });
    expect(page.items[1]?.description).match(/^How is a loan repaid\? Really, .*…$/);
    expect(page.items[1]?.description).length(200);
  });

  it('200: filters by agent, by current state and by words, and counts all matches on request', async () => {
    const mortgages = uuidv7();
    await addAgent(db, { ...by, agentId: mortgages }, 'Mortgages');
    await add('One', '2026-03-01T10:00:00Z');
    const drifting = await add('Two', '2026-03-02T10:00:00Z');
    await add('Two again', '2026-03-03T10:00:00Z', { agentId: mortgages });
    await db('chats').where({ id: drifting }).update({ echoState: 'drift_user' });
    for (const [query, expected] of [
      [{}, ['Two again', 'Two', 'One']],
      [{ agent_id: by.agentId }, ['Two', 'One']],
      [{ state: 'drift_user' }, ['Two']],
      [{ state: 'stable' }, ['Two again', 'One']],
      [{ state: 'stable', agent_id: by.agentId }, ['One']],
      [{ q: 'two' }, ['Two again', 'Two']],
      [{ q: 'two', state: 'stable' }, ['Two again']],
      [{ agent_id: uuidv7() }, []],
    ] as [Query, string[]][]) {
      expect(await titles(query), JSON.stringify(query)).deep.equal(expected);
      expect((await list({ ...query, limit: '1', include_total: 'true' })).total).equal(expected.length);
    }
  });

  it('200: includes both ends of a period, and the whole day if an end is a date', async () => {
    await add('a', '2026-03-01T00:00:00.000Z');
    const b = await add('b', '2026-03-01T23:59:59.999Z');
    await add('c', '2026-03-02T12:00:00Z');
    const createdAt = db.raw("'2026-03-01T23:59:59.999999Z'");
    await db('chats').where({ id: b }).update({ createdAt });
    for (const [date_from, date_to, expected] of [
      ['2026-03-01', '2026-03-01', 'ba'],
      ['', '2026-03-01T00:00:00Z', 'a'],
      ['2026-03-01T23:59:59.999Z', '', 'cb'],
      ['2026-03-01T23:59:59.999', '2026-03-01T23:59:59.999Z', 'b'],
      ['2026-03-02T13:00:00+01:00', '9999-12-31', 'c'],
      ['2026-03-03', '2026-03-01', ''],
      ['0001-01-01', '0001-01-01', ''],
    ] as const) {
      const period = { ...(date_from && { date_from }), ...(date_to && { date_to }) };
      expect((await titles(period)).join(''), JSON.stringify(period)).equal(expected);
      expect((await list({ ...period, include_total: 'true' })).total).equal(expected.length);
    }
  });

  it('200: finds words in titles, messages and replies, and matches the last word by prefix', async () => {
    const one = await add('Häuser und Gärten', '2026-03-01T10:00:00Z');
    await say(one, 1, 'How is a mortgage repaid?', { assistantReply: 'Month by month, see example.com/plan.' });
    await say(one, 2, '住宅ローンはいくらですか', { status: 'error', assistantReply: null });
    await add('Mortgages', '2026-03-02T10:00:00Z');
    expect(await titles({ q: 'mortgage' })).deep.equal(['Mortgages', 'Häuser und Gärten']);
    for (const q of ['month MORTG', 'garten haus', 'example.com/plan', '住宅']) {
      expect(await titles({ q }), q).deep.equal(['Häuser und Gärten']);
    }
    // Not in one round together; not the beginning of a word; no word at all.
    for (const q of ['mortgage garten', 'mortg month', 'ortgage', 'mo', '%', '*', "' | 'x", 'org']) {
      expect(await titles({ q }), q).deep.equal([]);
    }
    expect(await titles({ q: '' })).length(2);
    await ada.patch(`/chat/${one}`, { title: 'Renamed' }, 200);
    expect(await titles({ q: 'garten' })).deep.equal([]);
    await ada.delete(`/chat/${one}`, 204);
    expect(await titles({ q: 'repaid' })).deep.equal([]);
  });

  it('200: finds words beyond the newest 200 conversations, page by page', async () => {
    const start = Date.parse('2026-03-01');
    for (let n = 0; n < 210; n += 1) {
      await add(n % 205 === 0 ? `Rare bird ${n}` : 'Bird', new Date(start - n * 60_000).toISOString());
    }
    const rare = (await collect(pages({ q: 'rare', limit: '1' }))).flatMap(titlesOf);
    expect(rare).deep.equal(['Rare bird 0', 'Rare bird 205']);
    expect(await titles({ q: 'bird', limit: '2' })).deep.equal(['Rare bird 0', 'Bird']);
    expect((await list({ q: 'bird', include_total: 'true', limit: '1' })).total).equal(210);
  });

  it('400 and 422: rejects a damaged cursor, a cursor of other filters, long words and large pages', async () => {
    await add('One', '2026-03-01T10:00:00Z');
    await add('Two', '2026-03-02T10:00:00Z');
    const { next_cursor: cursor } = await list({ limit: '1' });
    for (const query of [`q=one&cursor=${cursor}`, `cursor=${cursor}x`, 'cursor=nothing']) {
      const { body } = await ada.get(`/logs/conversations?${query}`, 400);
      expect(body).include({ code: 'invalid_cursor' });
    }
    expect(await titles({ limit: '5', cursor: cursor ?? '' })).deep.equal(['One']);
    const tooLarge = [`conversations?q=${'a'.repeat(201)}`, 'conversations?limit=101', 'recent?limit=32'];
    for (const query of [...tooLarge, `conversations/${uuidv7()}?limit=501`]) await ada.get(`/logs/${query}`, 422);
  });
});

describe('logs of all conversations:', () => {
  let api: Stack;
  let ada: Member;
  let bob: Member;
  let eve: Member;
  let by: { orgId: string; createdBy: string; agentId: string };
  let mortgages: string;
  let own: string;

  before(async () => {
    api = await stack();
    const { db } = api.container;
    ada = await api.signUp('Ada');
    bob = await aColleague(api, ada, 'Bob');
    eve = await api.signUp('Eve');
    const shared = { visibility: 'team_level' as const, teamIds: [await aTeam(ada, [bob])] };
    by = { orgId: ada.orgId, createdBy: ada.userId, agentId: uuidv7() };
    mortgages = uuidv7();
    await addAgent(db, by);
    await addAgent(db, { ...by, agentId: mortgages }, 'Mortgages');
    await addAgent(db, { ...by, agentId: uuidv7() }, 'Never asked');
    own = await addChat(db, by, { title: 'Own', startedAt: new Date('2026-03-01T10:00:00Z') });
    const bobs = { ...by, createdBy: bob.userId, agentId: mortgages };
    const team = await addChat(db, bobs, { ...shared, title: 'Team', startedAt: new Date('2026-03-02T10:00:00Z') });
    const unused = { inputTokens: 0, completionTokens: 0, costUsd: 0, assistantReply: null, latencyMs: null };
    for (const [chatId, round, columns] of [
      [own, 1, { echoState: 'stable', ewma: 90, scoredAt, inputTokens: 100, costUsd: 0.5, latencyMs: 100 }],
      [own, 2, { echoState: 'drift_agent', ewma: 40, scoredAt, inputTokens: 200, costUsd: 0.25, latencyMs: 300 }],
      [team, 1, { echoState: 'refusal', ewma: 50, scoredAt, inputTokens: 1_000, costUsd: 0, latencyMs: 500 }],
      [team, 2, { status: 'error', ...unused }],
    ] as const) {
      await addRound(db, { orgId: by.orgId, chatId, round }, columns);
    }
  });

  const read = async (path: string, reader = ada) => (await reader.get(`/logs/${path}`, 200)).body;

  it('GET /logs/stats aggregates over the conversations that each user may read, by agent and period', async () => {
    const none = {
      ...{ total_chats: 0, total_rounds: 0, avg_ewma: null, total_cost_usd: 0, avg_latency_ms: null },
      ...{ total_input_tokens: 0, total_completion_tokens: 0, total_tokens: 0 },
      ...{ drift_rounds: 0, stable_rounds: 0, refusal_rounds: 0, drift_rate: null },
    };
    const ofAll = {
      ...{ total_chats: 2, total_rounds: 4, avg_ewma: 60, total_cost_usd: 0.75, avg_latency_ms: 300 },
      ...{ total_input_tokens: 1_300, total_completion_tokens: 15, total_tokens: 1_315 },
      ...{ drift_rounds: 1, stable_rounds: 1, refusal_rounds: 1, drift_rate: 1 / 3 },
    };
    for (const [query, totals] of [
      ['', ofAll],
      ['date_from=2026-03-01&date_to=2026-03-02', ofAll],
      ['date_from=2026-03-01T10:00:00.001Z&date_to=2026-03-02T09:00:00Z', none],
      [`agent_id=${mortgages}&date_to=2026-03-01`, none],
    ] as const) {
      expect(await read(`stats?${query}`), query).deep.equal(totals);
    }
    expect(await read(`stats?agent_id=${by.agentId}`)).include({ total_chats: 1, avg_ewma: 65, drift_rate: 0.5 });
    const ofBob = { total_chats: 1, total_rounds: 2, refusal_rounds: 1, avg_ewma: 50 };
    expect(await read('stats', bob)).deep.include(ofBob);
    expect(await read('stats', eve)).deep.equal(none);
  });

  it('GET /logs/recent lists the last changed conversations first', async () => {
    const titles = async (query = '', reader = ada) =>
      Object(await read(`recent${query}`, reader)).map(({ title }: { title: string }) => title);
    await ada.patch(`/chat/${own}`, { title: 'Own' }, 200);
    const { updatedAt } = await api.container.db('chats').where({ id: own }).first();
    const newest = { id: own, title: 'Own', updated_at: updatedAt.toISOString() };
    expect(await read('recent?limit=1')).deep.equal([newest]);
    expect(await titles()).deep.equal(['Own', 'Team']);
    expect(await titles('?mine=true')).deep.equal(['Own']);
    expect(await titles('?mine=false', bob)).deep.equal(['Team']);
    expect(await titles('', eve)).deep.equal([]);
  });

  it('GET /logs/agents lists agents of readable conversations, including deleted agents', async () => {
    await api.container.db('agents').where({ id: mortgages }).update({ deletedAt: new Date() });
    const deleted = { id: mortgages, name: 'Mortgages' };
    expect(await read('agents')).deep.equal([{ id: by.agentId, name: 'Loans' }, deleted]);
    expect(await read('agents', bob)).deep.equal([deleted]);
    expect(await read('agents', eve)).deep.equal([]);
  });
});

type Session = { round_summaries: { round: number }[]; next_cursor: string | null };

const event = (type: string, round: number) => ({ type, round, at: '2026-03-02T10:00:00.000Z', data: {} });

describe('a logged conversation', () => {
  let api: Stack;
  let ada: Member;
  let by: { orgId: string; createdBy: string; agentId: string };
  let chatId: string;

  before(async () => {
    api = await stack();
    ada = await api.signUp('Ada');
    const { db } = api.container;
    by = { orgId: ada.orgId, createdBy: ada.userId, agentId: uuidv7() };
    await addAgent(db, by);
    chatId = await addChat(db, by, { title: 'A <b>loan</b> & "more"', startedAt: new Date('2026-03-01T10:00:00Z') });
    const used = { inputTokens: 100, completionTokens: 20, costUsd: 0.001 };
    const [onTopic, offTopic] = [
      { userLabel: 'on', offStreak: 0, onStreak: 1 },
      { userLabel: 'off', offStreak: 3, onStreak: 0 },
    ];
    const scores = [
      { echoState: 'stable', ewma: 90, alignmentScore: 0.9, scoredAt, foldState: onTopic },
      { echoState: 'drift_user', ewma: 40.5, alignmentScore: 0.1, scoredAt, latencyMs: 200, foldState: offTopic },
      { echoState: 'refusal', ewma: 42, alignmentScore: 0.2, scoredAt, latencyMs: 300, foldState: offTopic },
    ];
    const events = {
      answerEvents: JSON.stringify([event('retrieval_degraded', 2)]),
      events: JSON.stringify([event('drift_started', 2)]),
    };
    const unused = { inputTokens: 0, completionTokens: 0, costUsd: 0, assistantReply: null, latencyMs: null };
    const rounds = [
      { ...used, ...scores[0], userContent: 'How is a\nloan repaid?' },
      { ...used, ...scores[1], ...events },
      { ...used, ...scores[2] },
      { ...unused, status: 'error', errorCode: 'model_unavailable' },
      { ...used, model: 'newer', latencyMs: 400 },
    ];
    for (const [index, columns] of rounds.entries()) {
      await addRound(db, { orgId: ada.orgId, chatId, round: index + 1 }, columns);
    }
  });

  describe('at GET /logs/conversations/{chat_id}', () => {
    const read = async (query = '', id = chatId) =>
      (await ada.get(`/logs/conversations/${id}${query}`, 200)).body as Session;
    /** The numbers of the rounds of each page. */
    async function pages(limit: number, id = chatId): Promise<number[][]> {
      const numbers: number[][] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page: Session = await read(`?limit=${limit}${cursor === '' ? '' : `&cursor=${cursor}`}`, id);
        numbers.push(page.round_summaries.map(({ round }) => round));
        cursor = page.next_cursor;
      }
      return numbers;
    }

    it('has the result of each round and a summary', async () => {
      const body = await read();
      expect(body).deep.include({
        session: {
          ...{ run_id: `alignment-${chatId}`, agent: 'Loans', model: 'newer', started_at: '2026-03-01T10:00:00.000Z' },
          summary: { total_rounds: 5, avg_ewma: 57.5, stable_rounds: 1, drift_rounds: 1, refusal_rounds: 1 },
        },
        ...{ next_cursor: null, avg_latency_ms: 250 },
        ...{ chat_title: 'A <b>loan</b> & "more"', chat_description: 'How is a loan repaid?' },
      });
      const texts = { user_content: 'How is a loan repaid?', assistant_reply: 'Month by month.' };
      const exchange = { ...texts, type: 'exchange', scoring_pending: false };
      const unscored = { state: null, ewma: null };
      expect(body.round_summaries).deep.equal([
        {
          ...{ ...exchange, user_content: 'How is a\nloan repaid?' },
          ...{ round: 1, state: 'stable', ewma: 90, latency_ms: 100 },
        },
        { ...exchange, round: 2, state: 'drift_user', ewma: 40.5, latency_ms: 200 },
        { ...exchange, round: 3, type: 'refusal', state: 'refusal', ewma: 42, latency_ms: 300 },
        { ...exchange, round: 4, type: 'error', ...unscored, assistant_reply: null, latency_ms: null },
        { ...exchange, round: 5, ...unscored, scoring_pending: true, latency_ms: 400 },
      ]);
    });

    it('is returned in pages, which have fewer rounds if their texts are long', async () => {
      expect(await pages(2)).deep.equal([[1, 2], [3, 4], [5]]);
      const long = await addChat(api.container.db, by);
      for (const [index, size] of [2.1, 2.1, 5, 2.1].entries()) {
        const assistantReply = 'x'.repeat(size * 1_000_000);
        await addRound(api.container.db, { orgId: ada.orgId, chatId: long, round: index + 1 }, { assistantReply });
      }
      expect(await pages(500, long)).deep.equal([[1, 2], [3], [4]]);
    });

    it('is refused with 400 for a cursor of another conversation', async () => {
      const { next_cursor: cursor } = await read('?limit=2');
      const other = await addChat(api.container.db, by);
      await ada.get(`/logs/conversations/${other}?cursor=${cursor}`, 400);
      await ada.get(`/logs/conversations/${chatId}?cursor=x`, 400);
    });
  });

  const readRound = async (round: number | string, status = 200) =>
    Object((await ada.get(`/logs/conversations/${chatId}/rounds/${round}`, status)).body);

  it('has rounds with scores and events, which are missing until the round is scored', async () => {
    const body = await readRound(2);
    expect(body).deep.include({ chat_id: chatId, round_index: 2, scoring_pending: false });
    expect(body.round).deep.equal({
      ...{ round: 2, state: 'drift_user', ewma: 40.5, alignment_score: 0.1, user_on_or_off_topic_streak: 3 },
      ...{ input_tokens: 100, completion_tokens: 20, latency_ms: 200 },
      events: [event('retrieval_degraded', 2), event('drift_started', 2)],
    });
    expect(body.session.summary.total_rounds).equal(5);
    expect((await readRound(1)).round.user_on_or_off_topic_streak).equal(1);

    const unscored = await readRound(5);
    expect(unscored.scoring_pending).equal(true);
    expect(unscored.round).deep.include({ state: null, ewma: null, alignment_score: null, events: [] });
    expect(unscored.round.user_on_or_off_topic_streak).equal(null);
  });

  it('answers 404 for a round that it does not have', async () => {
    for (const round of [6, 0, -1, '1.5', 'first', '9999999999']) {
      expect(await readRound(round, 404)).include({ code: 'round_not_found' });
    }
  });

  it('has its trend as an SVG image with a text description, which can be read in ranges', async () => {
    const path = `/logs/conversations/${chatId}/trend.svg`;
    const { body, headers } = await ada.get(path, 200);
    expect(headers.get('content-type')).equal('image/svg+xml; charset=utf-8');
    const svg = String(body);
    expect(svg).include('<title id="title">Trend of A &lt;b&gt;loan&lt;/b&gt; &amp; &quot;more&quot;</title>');
    expect(svg).include(
      'Rounds 1 to 3: the trend is 42 of 100 and refusal in the last one, lowest with 40.5 in round 2.',
    );
    expect(svg.match(/<rect class="\w+" x="[\d.]+" y="36"/g)).length(3);
    expect(svg.match(/class="refused"/g)).length(1);
    expect(svg).include('prefers-color-scheme: dark').not.include('<b>');
    expect((await ada.get(path, 206, { range: 'bytes=0-3' })).body).equal('<svg');
    const outside = await ada.get(path, 416, { range: 'bytes=9999999-' });
    expect(outside.body).include({ code: 'range_not_satisfiable' });
  });
});
