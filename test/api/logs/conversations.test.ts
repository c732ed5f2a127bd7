import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
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

  it('200: filters by agent, state, words and a period including its ends, and counts matches on request', async () => {
    const mortgages = uuidv7();
    await addAgent(db, { ...by, agentId: mortgages }, 'Mortgages');
    const one = await add('One', '2026-03-01T00:00:00.000Z');
    await say(one, 1, `How\nis a   loan repaid? ${'Really, '.repeat(40)}`);
    const drifting = await add('Two', '2026-03-01T23:59:59.999Z');
    await add('Two again', '2026-03-02T12:00:00Z', { agentId: mortgages });
    await db('chats').where({ id: drifting }).update({ echoState: 'drift_user' });
    for (const [query, expected] of [
      [{}, ['Two again', 'Two', 'One']],
      [{ agent_id: by.agentId }, ['Two', 'One']],
      [{ state: 'drift_user' }, ['Two']],
      [{ state: 'stable', agent_id: by.agentId }, ['One']],
      [{ q: 'two' }, ['Two again', 'Two']],
      [{ q: 'two', state: 'stable' }, ['Two again']],
      [{ agent_id: uuidv7() }, []],
      // A date is the whole day.
      [{ date_from: '2026-03-01', date_to: '2026-03-01' }, ['Two', 'One']],
      [{ date_to: '2026-03-01T00:00:00Z' }, ['One']],
      [{ date_from: '2026-03-01T23:59:59.999Z' }, ['Two again', 'Two']],
      [{ date_from: '2026-03-01T23:59:59.999', date_to: '2026-03-01T23:59:59.999Z' }, ['Two']],
      [{ date_from: '2026-03-02T13:00:00+01:00', date_to: '9999-12-31' }, ['Two again']],
      [{ date_from: '2026-03-03', date_to: '2026-03-01' }, []],
      [{ date_from: '0001-01-01', date_to: '0001-01-01' }, []],
    ] as [Query, string[]][]) {
      expect(await titles(query), JSON.stringify(query)).deep.equal(expected);
      expect((await list({ ...query, limit: '1', include_total: 'true' })).total).equal(expected.length);
    }
    const [{ description } = expect.fail('No conversation was found.')] = (await list({ q: 'loan' })).items;
    expect(description)
      .match(/^How is a loan repaid\? Really, .*…$/)
      .and.length(200);
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
    const rare: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page: Page = await list({ q: 'rare', limit: '1', ...(cursor && { cursor }) });
      rare.push(...titlesOf(page));
      cursor = page.next_cursor;
    }
    expect(rare).deep.equal(['Rare bird 0', 'Rare bird 205']);
    expect(await titles({ q: 'bird', limit: '2' })).deep.equal(['Rare bird 0', 'Bird']);
    expect((await list({ q: 'bird', include_total: 'true', limit: '1' })).total).equal(210);
  });

  it('400 and 422: rejects a cursor made for other filters, too long search words and too large pages', async () => {
    for (const title of ['One', 'Two']) await add(title, '2026-03-01T10:00:00Z');
    const { next_cursor: cursor } = await list({ limit: '1' });
    const { body } = await ada.get(`/logs/conversations?q=one&cursor=${cursor}`, 400);
    expect(body).include({ code: 'invalid_cursor' });
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
  /** A personal conversation of Ada's, with five rounds. */
  let own: string;
  /** A conversation of Bob's that the team reads, with two rounds. */
  let team: string;
  const event = (type: string, round: number) => ({ type, round, at: '2026-03-02T10:00:00.000Z', data: {} });

  before(async () => {
    api = await stack();
    const { db } = api.container;
    ada = await api.signUp('Ada');
    bob = await aColleague(api, ada, 'Bob');
    eve = await api.signUp('Eve');
    by = { orgId: ada.orgId, createdBy: ada.userId, agentId: uuidv7() };
    mortgages = uuidv7();
    await addAgent(db, by);
    await addAgent(db, { ...by, agentId: mortgages }, 'Mortgages');
    await addAgent(db, { ...by, agentId: uuidv7() }, 'Never asked');
    own = await addChat(db, by, { title: 'A <b>loan</b> & "more"', startedAt: new Date('2026-03-01T10:00:00Z') });
    const bobs = { ...by, createdBy: bob.userId, agentId: mortgages };
    const startedAt = scoredAt;
    const teamIds = [await aTeam(ada, [bob])];
    team = await addChat(db, bobs, { visibility: 'team_level', teamIds, title: '=1+1', startedAt });

    const used = { inputTokens: 100, completionTokens: 20, costUsd: 0.5 };
    const failed = { status: 'error', errorCode: 'model_unavailable', assistantReply: null, latencyMs: null };
    const [onTopic, offTopic] = [
      { userLabel: 'on', offStreak: 0, onStreak: 1 },
      { userLabel: 'off', offStreak: 3, onStreak: 0 },
    ];
    const [stable, drift, refusal] = [
      { echoState: 'stable', ewma: 90, alignmentScore: 0.9, scoredAt, foldState: onTopic },
      { echoState: 'drift_agent', ewma: 40.5, alignmentScore: 0.1, scoredAt, latencyMs: 200, foldState: offTopic },
      { echoState: 'refusal', ewma: 42, alignmentScore: 0.2, scoredAt, latencyMs: 300, foldState: offTopic },
    ];
    const events = {
      answerEvents: JSON.stringify([event('retrieval_degraded', 2)]),
      events: JSON.stringify([event('drift_started', 2)]),
    };
    const watch = { echoState: 'watch', ewma: 61.5, alignmentScore: 0.25, scoredAt, foldState: offTopic };
    for (const [chatId, round, columns] of [
      [own, 1, { ...used, ...stable, userContent: 'How is a\nloan repaid?' }],
      [own, 2, { ...used, ...drift, ...events }],
      [own, 3, { ...used, ...refusal }],
      [own, 4, { ...failed, inputTokens: 0, completionTokens: 0, costUsd: 0 }],
      [own, 5, { ...used, model: 'newer', latencyMs: 400 }],
      [team, 1, { ...watch, startedAt, costUsd: 0.25, userContent: '-2+3 "quoted",\nand more' }],
      [team, 2, { ...failed, startedAt, costUsd: 0.25, userContent: 'Häuser' }],
    ] as const) {
      await addRound(db, { orgId: by.orgId, chatId, round }, columns);
    }
  });

  const read = async (path: string, reader = ada) => (await reader.get(`/logs/${path}`, 200)).body;

  it('GET /logs/conversations lists conversations newest first, each with agent, rounds and mean score', async () => {
    const page = (await read('conversations')) as Page;
    expect(page).include({ next_cursor: null, total: null });
    const [newest, oldest] = page.items;
    expect(newest).include({ id: team, title: '=1+1', started_at: '2026-03-02T10:00:00.000Z', agent: 'Mortgages' });
    expect(newest).include({ agent_id: mortgages, description: '-2+3 "quoted", and more' });
    expect(newest).include({ total_rounds: 2, avg_ewma: 61.5 });
    expect(oldest).include({ id: own, total_rounds: 5, avg_ewma: 57.5, description: 'How is a loan repaid?' });
  });

  it('GET /logs/stats aggregates over the conversations that each user may read, by agent and period', async () => {
    const all = await read('stats');
    expect(all).include({ total_chats: 2, total_rounds: 7, avg_ewma: 58.5, total_cost_usd: 2.5, avg_latency_ms: 220 });
    expect(all).include({ total_input_tokens: 420, total_completion_tokens: 90, total_tokens: 510 });
    expect(all).include({ drift_rounds: 1, stable_rounds: 2, watch_rounds: 1, refusal_rounds: 1, drift_rate: 1 / 4 });
    const none = await read('stats', eve);
    expect(none).include({ total_chats: 0, total_rounds: 0, avg_ewma: null, total_cost_usd: 0, avg_latency_ms: null });
    expect(none).include({ total_input_tokens: 0, total_completion_tokens: 0, total_tokens: 0 });
    expect(none).include({ drift_rounds: 0, stable_rounds: 0, watch_rounds: 0, refusal_rounds: 0, drift_rate: 0 });
    for (const [query, totals] of [
      ['date_from=2026-03-01&date_to=2026-03-02', all],
      ['date_from=2026-03-01T10:00:00.001Z&date_to=2026-03-02T09:00:00Z', none],
      [`agent_id=${mortgages}&date_to=2026-03-01`, none],
    ] as const) {
      expect(await read(`stats?${query}`), query).deep.equal(totals);
    }
    expect(await read(`stats?agent_id=${by.agentId}`)).include({ total_chats: 1, avg_ewma: 57.5, drift_rate: 1 / 3 });
    expect(await read('stats', bob)).include({ total_chats: 1, total_rounds: 2, refusal_rounds: 0, avg_ewma: 61.5 });
  });

  it('GET /logs/recent lists the last changed conversations first', async () => {
    const idsOf = async (query = '', reader = ada) =>
      Object(await read(`recent${query}`, reader)).map(({ id }: { id: string }) => id);
    const title = 'A <b>loan</b> & "more"';
    const { updated_at } = Object((await ada.patch(`/chat/${own}`, { title }, 200)).body);
    expect(await read('recent?limit=1')).deep.equal([{ id: own, title, updated_at }]);
    expect(await idsOf()).deep.equal([own, team]);
    expect(await idsOf('?mine=true')).deep.equal([own]);
    expect(await idsOf('?mine=false', bob)).deep.equal([team]);
    expect(await idsOf('', eve)).deep.equal([]);
  });

  it('GET /logs/agents lists agents of readable conversations, including deleted agents', async () => {
    await ada.delete(`/agents/${mortgages}`, 204);
    const deleted = { id: mortgages, name: 'Mortgages' };
    expect(await read('agents')).deep.equal([{ id: by.agentId, name: 'Loans' }, deleted]);
    expect(await read('agents', bob)).deep.equal([deleted]);
    expect(await read('agents', eve)).deep.equal([]);
  });

  describe('GET /logs/export', () => {
    const columns =
      'chat_id,title,description,agent_id,agent,started_at,round,at,type,error_code,model,user_content,' +
      'assistant_reply,scoring_pending,state,ewma,alignment_score,user_on_or_off_topic_streak,input_tokens,' +
      'completion_tokens,cost_usd,latency_ms,is_draft';
    const readLines = async (query: string, reader = ada): Promise<Record<string, unknown>[]> => {
      const text = await (await reader.raw(`/logs/export?format=jsonl&${query}`)).text();
      return (text.match(/.+/g) ?? []).map((line) => JSON.parse(line));
    };

    it('200: exports CSV in which no cell is a formula', async () => {
      const { body, headers } = await bob.get('/logs/export', 200);
      expect(headers.get('content-type')).equal('text/csv; charset=utf-8; header=present');
      expect(headers.get('content-disposition')).include('attachment; filename="conversations.csv"');
      const at = '2026-03-02T10:00:00.000Z';
      const chat = `${team},'=1+1,"'-2+3 ""quoted"", and more",${mortgages},Mortgages,${at}`;
      expect(String(body).split('\r\n')).deep.equal([
        columns,
        `${chat},1,${at},exchange,,any,"'-2+3 ""quoted"",\nand more",Month by month.,false,watch,61.5,0.25,3,10,5,0.25,100,false`,
        `${chat},2,${at},error,model_unavailable,any,Häuser,,false,,,,,10,5,0.25,,false`,
        '',
      ]);
      expect((await bob.get('/logs/export?date_from=2026-03-03', 200)).body).equal(`${columns}\r\n`);
    });

    it('200: exports a JSON line for each round of readable conversations, with the filters of the list', async () => {
      const lines = await readLines('', bob);
      for (const line of lines) expect(Object.keys(line).join()).equal(columns);
      expect(lines[0]).include({ title: '=1+1', round: 1, state: 'watch', ewma: 61.5, user_on_or_off_topic_streak: 3 });
      expect(lines[1]).include({ type: 'error', assistant_reply: null, state: null, latency_ms: null });
      expect(await readLines('state=stable&q=hauser&date_to=2026-03-02')).length(2);
      expect(await readLines('state=watch')).length(0);
      expect(await readLines('', eve)).length(0);
      expect((await ada.get('/logs/export?format=xlsx', 400)).body).include({ code: 'unsupported_export_format' });
    });
  });

  type Session = { round_summaries: { round: number }[]; next_cursor: string | null };

  const readSession = async (query = '', id = own) => (await read(`conversations/${id}${query}`)) as Session;
  async function pages(limit: number, id = own): Promise<number[][]> {
    const numbers: number[][] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page: Session = await readSession(`?limit=${limit}${cursor === '' ? '' : `&cursor=${cursor}`}`, id);
      numbers.push(page.round_summaries.map(({ round }) => round));
      cursor = page.next_cursor;
    }
    return numbers;
  }

  it('GET /logs/conversations/{chat_id} shows the result of each round and a summary', async () => {
    const body = Object(await readSession());
    const { summary, ...session } = body.session;
    const started_at = '2026-03-01T10:00:00.000Z';
    const of = { agent: 'Loans', is_draft: false, model: 'newer' };
    expect(session).deep.equal({ run_id: `alignment-${own}`, ...of, started_at });
    const counts = { total_rounds: 5, stable_rounds: 1, watch_rounds: 0, drift_rounds: 1, refusal_rounds: 1 };
    expect(summary).deep.equal({ ...counts, avg_ewma: 57.5 });
    expect(body).include({ next_cursor: null, avg_latency_ms: 250 });
    expect(body).include({ chat_title: 'A <b>loan</b> & "more"', chat_description: 'How is a loan repaid?' });
    const texts = { user_content: 'How is a loan repaid?', assistant_reply: 'Month by month.' };
    const exchange = { ...texts, type: 'exchange', scoring_pending: false };
    const unscored = { state: null, ewma: null };
    expect(body.round_summaries).deep.equal([
      { ...exchange, round: 1, user_content: 'How is a\nloan repaid?', state: 'stable', ewma: 90, latency_ms: 100 },
      { ...exchange, round: 2, state: 'drift_agent', ewma: 40.5, latency_ms: 200 },
      { ...exchange, round: 3, type: 'refusal', state: 'refusal', ewma: 42, latency_ms: 300 },
      { ...exchange, round: 4, type: 'error', ...unscored, assistant_reply: null, latency_ms: null },
      { ...exchange, round: 5, ...unscored, scoring_pending: true, latency_ms: 400 },
    ]);
  });

  it('GET /logs/conversations/{chat_id} returns pages, which have fewer rounds if their texts are long', async () => {
    expect(await pages(2)).deep.equal([[1, 2], [3, 4], [5]]);
    const long = await addChat(api.container.db, by);
    for (const [index, size] of [2.1, 2.1, 5, 2.1].entries()) {
      const assistantReply = 'x'.repeat(size * 1_000_000);
      await addRound(api.container.db, { orgId: ada.orgId, chatId: long, round: index + 1 }, { assistantReply });
    }
    expect(await pages(500, long)).deep.equal([[1, 2], [3], [4]]);
    const { next_cursor: cursor } = await readSession('?limit=2');
    await ada.get(`/logs/conversations/${long}?cursor=${cursor}`, 400);
  });

  const readRound = async (round: number | string, status = 200) =>
    Object((await ada.get(`/logs/conversations/${own}/rounds/${round}`, status)).body);

  it('GET /logs/conversations/{chat_id}/rounds/{round} shows scores and events once the round is scored', async () => {
    const body = await readRound(2);
    expect(body).deep.include({ chat_id: own, round_index: 2, scoring_pending: false });
    expect(body.round).include({ round: 2, state: 'drift_agent', ewma: 40.5, alignment_score: 0.1 });
    expect(body.round).include({ user_on_or_off_topic_streak: 3, input_tokens: 100, completion_tokens: 20 });
    expect(body.round.events).deep.equal([event('retrieval_degraded', 2), event('drift_started', 2)]);
    expect(body.round).deep.include({ latency_ms: 200, tool_calls: [] });
    expect(body.session.summary.total_rounds).equal(5);
    expect((await readRound(1)).round.user_on_or_off_topic_streak).equal(1);

    const unscored = await readRound(5);
    expect(unscored.scoring_pending).equal(true);
    expect(unscored.round).deep.include({ state: null, ewma: null, alignment_score: null, events: [] });
    expect(unscored.round.user_on_or_off_topic_streak).equal(null);
    for (const round of [6, 0, -1, '1.5', 'first', '9999999999']) {
      expect(await readRound(round, 404)).include({ code: 'round_not_found' });
    }
  });

  it('GET /logs/conversations/{chat_id}/trend.svg draws the trend, with a text description', async () => {
    const path = `/logs/conversations/${own}/trend.svg`;
    const { body, headers } = await ada.get(path, 200);
    expect(headers.get('content-type')).equal('image/svg+xml; charset=utf-8');
    const svg = String(body);
    expect(svg).include('<title id="title">Trend of A &lt;b&gt;loan&lt;/b&gt; &amp; &quot;more&quot;</title>');
    expect(svg).include(
      'Rounds 1 to 3: the trend is 42 of 100 and refusal in the last one, lowest with 40.5 in round 2.',
    );
    expect((await ada.get(path, 206, { range: 'bytes=0-3' })).body).equal('<svg');
    await ada.get(path, 416, { range: 'bytes=9999999-' });
  });
});
