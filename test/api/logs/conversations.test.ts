import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { addAgent, addChat, addRound } from '#test/support/logged-chats.ts';
import { type Stack, stack } from '#test/support/stack.ts';

type Page = {
  items: { id: string; title: string; description: string; started_at: string }[];
  next_cursor: string | null;
  total: number | null;
};

const at = (text: string) => new Date(text);

describe('GET /logs/conversations', () => {
  let api: Stack;
  let db: Knex;
  let ada: Member;
  let by: { orgId: string; createdBy: string; agentId: string };

  before(async () => {
    api = await stack();
    db = api.container.db;
  });
  beforeEach(async () => {
    ada = await api.signUp('Ada');
    by = await agentOf(ada);
  });

  async function agentOf(member: Member, name = 'Loans') {
    const made = { orgId: member.orgId, createdBy: member.userId, agentId: uuidv7() };
    await addAgent(db, made, name);
    return made;
  }
  const list = async (query: Record<string, string> = {}, reader: Member = ada): Promise<Page> =>
    (await reader.get(`/logs/conversations?${new URLSearchParams(query)}`, 200)).body as Page;
  const titlesOf = ({ items }: Page) => items.map(({ title }) => title);
  const add = (title: string, startedAt: string, more: object = {}) =>
    addChat(db, by, { title, startedAt: at(startedAt), ...more });
  const say = (chatId: string, round: number, userContent: string, columns: object = {}) =>
    addRound(db, { orgId: by.orgId, chatId, round }, { userContent, ...columns });

  it('200: lists conversations newest first, each with agent, rounds and mean score', async () => {
    const older = await add('Older', '2026-03-01T10:00:00Z');
    const newer = await add('Newer', '2026-03-02T10:00:00Z');
    await say(older, 1, `How\nis a   loan repaid? ${'Really, '.repeat(40)}`, {
      ewma: 90,
      echoState: 'stable',
      scoredAt: at('2026-03-03'),
    });
    await say(older, 2, 'And then?', { ewma: 70, echoState: 'watch', scoredAt: at('2026-03-03') });
    await say(older, 3, 'And then?');
    const page = await list();
    expect(page).include({ next_cursor: null, total: null });
    expect(page.items[0]).deep.equal({
      id: newer,
      title: 'Newer',
      description: '',
      agent_id: by.agentId,
      agent: 'Loans',
      total_rounds: 0,
      avg_ewma: null,
      started_at: '2026-03-02T10:00:00.000Z',
    });
    expect(page.items[1]).include({ id: older, total_rounds: 3, avg_ewma: 80 });
    expect(page.items[1]?.description)
      .match(/^How is a loan repaid\? Really, .*…$/)
      .length(200);
  });

  it('200: filters by agent and by current state', async () => {
    const mortgages = await agentOf(ada, 'Mortgages');
    await add('One', '2026-03-01T10:00:00Z');
    const drifting = await add('Two', '2026-03-02T10:00:00Z');
    await addChat(db, mortgages, { title: 'Three' });
    await db('chats').where({ id: drifting }).update({ echoState: 'drift_user' });
    expect(titlesOf(await list({ agent_id: by.agentId }))).deep.equal(['Two', 'One']);
    expect(titlesOf(await list({ state: 'drift_user' }))).deep.equal(['Two']);
    expect(titlesOf(await list({ state: 'stable' }))).deep.equal(['Three', 'One']);
    expect(titlesOf(await list({ state: 'stable', agent_id: by.agentId }))).deep.equal(['One']);
    expect(titlesOf(await list({ state: 'refusal' }))).deep.equal([]);
    expect(titlesOf(await list({ agent_id: uuidv7() }))).deep.equal([]);
  });

  it('200: includes both ends of a period, and the whole day of a date', async () => {
    await add('a', '2026-03-01T00:00:00.000Z');
    const b = await add('b', '2026-03-01T23:59:59.999Z');
    await add('c', '2026-03-02T12:00:00Z');
    await db('chats')
      .where({ id: b })
      .update({ createdAt: db.raw("'2026-03-01T23:59:59.999999Z'") });
    const titles = async (query: Record<string, string>) => titlesOf(await list(query)).join('');
    expect(await titles({ date_from: '2026-03-01', date_to: '2026-03-01' })).equal('ba');
    expect(await titles({ date_to: '2026-03-01T00:00:00Z' })).equal('a');
    expect(await titles({ date_from: '2026-03-01T23:59:59.999Z' })).equal('cb');
    expect(await titles({ date_from: '2026-03-01T23:59:59.999', date_to: '2026-03-01T23:59:59.999Z' })).equal('b');
    expect(await titles({ date_from: '2026-03-02T13:00:00+01:00', date_to: '9999-12-31' })).equal('c');
    expect(await titles({ date_from: '2026-03-03', date_to: '2026-03-01' })).equal('');
    expect(await titles({ date_from: '0001-01-01', date_to: '0001-01-01' })).equal('');
  });

  it('200: finds words in titles, messages and replies, and the last word by prefix', async () => {
    const one = await add('Häuser und Gärten', '2026-03-01T10:00:00Z');
    await say(one, 1, 'How is a mortgage repaid?', { assistantReply: 'Month by month, see example.com/plan.' });
    await say(one, 2, '住宅ローンはいくらですか', { status: 'error', assistantReply: null });
    await add('Mortgages', '2026-03-02T10:00:00Z');
    const found = async (q: string) => titlesOf(await list({ q }));
    expect(await found('mortgage')).deep.equal(['Mortgages', 'Häuser und Gärten']);
    expect(await found('month MORTG')).deep.equal(['Häuser und Gärten']);
    expect(await found('garten haus')).deep.equal(['Häuser und Gärten']);
    expect(await found('example.com/plan')).deep.equal(['Häuser und Gärten']);
    expect(await found('住宅')).deep.equal(['Häuser und Gärten']);
    // Not in one round together; not the beginning of a word; no word at all.
    for (const q of ['mortgage garten', 'mortg month', 'ortgage', 'mo', '%', '*', "' | 'x", 'org']) {
      expect(await found(q), q).deep.equal([]);
    }
    expect(await found('')).length(2);
    await ada.patch(`/chat/${one}`, { title: 'Renamed' }, 200);
    expect(await found('garten')).deep.equal([]);
    await ada.delete(`/chat/${one}`, 204);
    expect(await found('repaid')).deep.equal([]);
  });

  it('200: finds rare and frequent words among many chats, page by page', async () => {
    const names = Array.from({ length: 330 }, (_, place) =>
      place % 110 === 0 ? `Rare bird ${place}` : `Bird ${place}`,
    );
    for (const [place, title] of names.entries()) {
      await addChat(db, by, { title, startedAt: new Date(Date.parse('2026-03-01') - place * 60_000) });
    }
    const pages = async (q: string): Promise<string[]> => {
      const titles: string[] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page: Page = await list({ q, limit: '2', ...(cursor !== '' && { cursor }) });
        titles.push(...titlesOf(page));
        cursor = titles.length < 40 ? page.next_cursor : null;
      }
      return titles;
    };
    expect(await pages('rare')).deep.equal(['Rare bird 0', 'Rare bird 110', 'Rare bird 220']);
    expect(await pages('bird')).deep.equal(names.slice(0, 40));
    expect((await list({ q: 'bird', include_total: 'true', limit: '1' })).total).equal(330);
  });

  it('200: counts all matches on request, with every filter', async () => {
    await add('One', '2026-03-01T10:00:00Z');
    await add('Two', '2026-03-02T10:00:00Z');
    const watched = await add('Two again', '2026-03-03T10:00:00Z');
    await db('chats').where({ id: watched }).update({ echoState: 'watch' });
    const total = async (query: Record<string, string>) =>
      (await list({ ...query, limit: '1', include_total: 'true' })).total;
    expect(await total({})).equal(3);
    expect(await total({ date_from: '2026-03-02' })).equal(2);
    expect(await total({ date_from: '2026-03-02T10:00:00.001Z' })).equal(1);
    expect(await total({ state: 'stable' })).equal(2);
    expect(await total({ q: 'two' })).equal(2);
    expect(await total({ q: 'two', state: 'watch' })).equal(1);
    expect(await total({ agent_id: uuidv7() })).equal(0);
  });

  it('200: neither loses nor repeats conversations across pages while chats change', async () => {
    const ids: string[] = [];
    // Several in one moment.
    for (let place = 0; place < 9; place += 1)
      ids.push(await add('Old', `2026-03-0${1 + Math.floor(place / 3)}T10:00:00Z`));
    const seen: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page: Page = await list({ limit: '2', ...(cursor !== '' && { cursor }) });
      seen.push(...page.items.map(({ id }) => id));
      cursor = page.next_cursor;
      await add('New', new Date().toISOString());
      const [some] = ids.filter((id) => !seen.includes(id));
      if (some !== undefined) await say(some, 1, 'Hello').catch(() => undefined);
      await ada.patch(`/chat/${ids[0]}`, { title: `Renamed ${seen.length}` }, 200);
    }
    expect(seen.toSorted()).deep.equal(ids.toSorted());
  });

  it('200: lists only conversations that the caller may read', async () => {
    const bob = await aColleague(api, ada, 'Bob');
    const eve = await api.signUp('Eve');
    const { body } = await ada.post('/entity/teams', { name: 'Red' }, 201);
    const teamIds = [(body as { id: string }).id];
    await add('Personal', '2026-03-01T10:00:00Z');
    await add('Shared', '2026-03-02T10:00:00Z', { visibility: 'org_level' });
    const bobs = { ...by, createdBy: bob.userId };
    await addChat(db, bobs, { title: 'Team', visibility: 'team_level', teamIds, startedAt: at('2026-03-03') });
    await addChat(db, bobs, { title: 'Of Bob', startedAt: at('2026-03-04') });
    // Who is in no team of it any more reads his own; an admin reads that of each team.
    expect(titlesOf(await list({}, bob))).deep.equal(['Of Bob', 'Team', 'Shared']);
    expect(titlesOf(await list({}, ada))).deep.equal(['Team', 'Shared', 'Personal']);
    expect(titlesOf(await list({}, eve))).deep.equal([]);
    expect((await list({ include_total: 'true' }, bob)).total).equal(3);
    await ada.delete(`/entity/users/${bob.userId}`, 204).catch(() => undefined);
    await db('agents').where({ id: by.agentId }).update({ deletedAt: new Date() });
    expect(titlesOf(await list({}, ada))).deep.equal(['Team', 'Shared', 'Personal']);
  });

  it('400: rejects a damaged cursor, and one of another list or other filters', async () => {
    await add('One', '2026-03-01T10:00:00Z');
    await add('Two', '2026-03-02T10:00:00Z');
    const { next_cursor: cursor } = await list({ limit: '1', q: 'one' }).then(() => list({ limit: '1' }));
    for (const query of [`q=one&cursor=${cursor}`, `cursor=${cursor}x`, 'cursor=nothing']) {
      const { body } = await ada.get(`/logs/conversations?${query}`, 400);
      expect(body).include({ code: 'invalid_cursor' });
    }
    expect(titlesOf(await list({ limit: '5', cursor: cursor ?? '' }))).deep.equal(['One']);
  });

  it('401: rejects a request without a token', async () => {
    await api.anonymous.get('/logs/conversations', 401);
  });

  it('422: rejects an invalid filter', async () => {
    const wrong = {
      state: ['drift', 'drift_'],
      date_from: ['yesterday', '2026-02-30', '2026-13-01', '0000-01-01', '12026-01-01', '2026-01-01T25:00:00Z'],
      date_to: ['1'],
      agent_id: ['nobody'],
      limit: ['0', '101'],
      q: ['a'.repeat(201)],
      include_total: ['perhaps'],
    };
    for (const [name, values] of Object.entries(wrong)) {
      for (const value of values) {
        const { body } = await ada.get(`/logs/conversations?${new URLSearchParams({ [name]: value })}`, 422);
        expect(Object(body).errors[0].path, value).equal(name);
      }
    }
  });
});
