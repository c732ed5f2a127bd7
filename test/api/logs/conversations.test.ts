import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { addAgent, addChat, addRound } from '#test/support/logged-chats.ts';
import { type Stack, stack } from '#test/support/stack.ts';

type Page = {
  items: { id: string; title: string; description: string; started_at: string }[];
  next_cursor: string | null;
  total: number | null;
};
type Query = Record<string, string>;

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

  it('200: includes both ends of a period, and the whole day of a date', async () => {
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

  it('200: finds words in titles, messages and replies, and the last word by prefix', async () => {
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

  it('200: lists the own conversations of users, those of all, and to admins those of every team', async () => {
    const bob = await aColleague(api, ada, 'Bob');
    const teamIds = [await aTeam(ada)];
    const bobs = { createdBy: bob.userId };
    await add('Personal', '2026-03-01T10:00:00Z');
    await add('Shared', '2026-03-02T10:00:00Z', { visibility: 'org_level' });
    await add('Team', '2026-03-03', { ...bobs, visibility: 'team_level', teamIds });
    await add('Of Bob', '2026-03-04', bobs);
    await db('agents').where({ id: by.agentId }).update({ deletedAt: new Date() });
    // Bob, who is not in the team any more, reads what he asked there.
    expect(await titles({}, bob)).deep.equal(['Of Bob', 'Team', 'Shared']);
    expect(await titles({}, ada)).deep.equal(['Team', 'Shared', 'Personal']);
    expect(await titles({}, await api.signUp('Eve'))).deep.equal([]);
    expect((await list({ include_total: 'true' }, bob)).total).equal(3);
  });

  it('400: rejects a damaged cursor, and one of other filters', async () => {
    await add('One', '2026-03-01T10:00:00Z');
    await add('Two', '2026-03-02T10:00:00Z');
    const { next_cursor: cursor } = await list({ limit: '1' });
    for (const query of [`q=one&cursor=${cursor}`, `cursor=${cursor}x`, 'cursor=nothing']) {
      const { body } = await ada.get(`/logs/conversations?${query}`, 400);
      expect(body).include({ code: 'invalid_cursor' });
    }
    expect(await titles({ limit: '5', cursor: cursor ?? '' })).deep.equal(['One']);
  });

  it('422: rejects words that are too long, and pages that are too large', async () => {
    for (const [path, field] of [
      [`conversations?q=${'a'.repeat(201)}`, 'q'],
      ['conversations?limit=101', 'limit'],
      [`conversations/${uuidv7()}?limit=501`, 'limit'],
      ['recent?limit=32', 'limit'],
      ['export?limit=1', 'limit'],
      ['stats?state=stable', 'state'],
    ]) {
      expect((await ada.get(`/logs/${path}`, 422)).body, path).nested.include({ 'errors[0].path': field });
    }
  });
});

describe('logs of all conversations', () => {
  const scoredAt = new Date('2026-03-02T10:00:00Z');
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
    const ofOwn = {
      ...{ total_chats: 1, total_rounds: 2, avg_ewma: 65, total_cost_usd: 0.75, avg_latency_ms: 200 },
      ...{ total_input_tokens: 300, total_completion_tokens: 10, total_tokens: 310 },
      ...{ drift_rounds: 1, stable_rounds: 1, refusal_rounds: 0, drift_rate: 0.5 },
    };
    const ofAll = {
      ...{ total_chats: 2, total_rounds: 4, avg_ewma: 60, total_cost_usd: 0.75, avg_latency_ms: 300 },
      ...{ total_input_tokens: 1_300, total_completion_tokens: 15, total_tokens: 1_315 },
      ...{ drift_rounds: 1, stable_rounds: 1, refusal_rounds: 1, drift_rate: 1 / 3 },
    };
    for (const [query, totals] of [
      ['', ofAll],
      [`agent_id=${by.agentId}`, ofOwn],
      ['date_to=2026-03-01', ofOwn],
      ['date_from=2026-02-01&date_to=2026-03-01T10:00:00Z', ofOwn],
      ['date_from=2026-03-01&date_to=2026-03-02', ofAll],
      ['date_from=2026-03-01T10:00:00.001Z&date_to=2026-03-02T09:00:00Z', none],
      [`agent_id=${mortgages}&date_to=2026-03-01`, none],
    ] as const) {
      expect(await read(`stats?${query}`), query).deep.equal(totals);
    }
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
