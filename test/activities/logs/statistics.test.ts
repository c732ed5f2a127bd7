import { expect } from 'chai';
import fc from 'fast-check';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { type Actor, accessKeysOfActor, accessKeysOfRow, type Visibility } from '#src/domain/access/visibility.ts';
import { countScoredRounds, echoStates, type LogFilter } from '#src/modules/logs/logs.model.ts';
import { createLogsService, type LogsService } from '#src/modules/logs/logs.service.ts';
import { chatLogsMatchRounds } from '#src/modules/store-audit/invariants/chats.ts';
import { addAgent, addChat, addOrganization, addRound } from '#test/support/logged-chats.ts';
import { createTestDatabase } from '#test/support/services.ts';

const firstDay = Date.parse('2026-01-27T00:00:00Z');
/** Five weeks around the ends of two months, often at the very beginning of a day. */
const anyTime = fc
  .tuple(fc.nat({ max: 35 }), fc.oneof(fc.constant(0), fc.nat({ max: 86_399_999 })))
  .map(([day, ms]) => new Date(firstDay + day * 86_400_000 + ms));
const anyScore = fc.record({
  echoState: fc.constantFrom(...echoStates),
  ewma: fc.double({ min: 0, max: 100, noNaN: true }),
});
const anyPlace = fc.nat({ max: 19 });

type Scope = { visibility: Visibility; teams: number[] };
type Change =
  | { kind: 'begin'; author: number; agent: number; startedAt: Date; scope: Scope }
  | { kind: 'ask' | 'fail' | 'delete' | 'forget'; place: number }
  | { kind: 'answer'; place: number; tokens: number }
  | { kind: 'score'; place: number; round: number; score: { echoState: string; ewma: number } }
  | { kind: 'share'; place: number; scope: Scope };

const anyScope: fc.Arbitrary<Scope> = fc.record({
  visibility: fc.constantFrom('personal' as const, 'team_level' as const, 'org_level' as const),
  teams: fc.subarray([0, 1], { minLength: 1 }),
});
const anyChange: fc.Arbitrary<Change> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('begin' as const),
      author: fc.nat({ max: 2 }),
      agent: fc.nat({ max: 1 }),
      startedAt: anyTime,
      scope: anyScope,
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('ask' as const), place: anyPlace }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('answer' as const), place: anyPlace, tokens: fc.nat({ max: 5_000 }) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('score' as const),
      place: anyPlace,
      round: fc.nat({ max: 2 }),
      score: anyScore,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom('fail' as const, 'delete' as const, 'forget' as const),
      place: anyPlace,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('share' as const), place: anyPlace, scope: anyScope }) },
);
const anyFilter = fc.record({
  agent: fc.option(fc.nat({ max: 1 }), { nil: undefined }),
  state: fc.option(fc.constantFrom(...echoStates), { nil: undefined }),
  from: fc.option(anyTime),
  until: fc.option(anyTime),
});

describe('log statistics', () => {
  let db: Knex;
  let logs: LogsService;
  let drop: () => Promise<void>;
  let orgId: string;
  const authors: string[] = [];
  const agents: string[] = [];
  const [one, two] = [uuidv7(), uuidv7()];
  let readers: Actor[];

  before(async () => {
    const database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 8, applicationName: 'test' });
    drop = database.drop;
    logs = createLogsService({ db });
    const made = await addOrganization(db);
    orgId = made.orgId;
    authors.push(made.createdBy, uuidv7(), uuidv7());
    agents.push(made.agentId, uuidv7());
    for (const id of authors.slice(1)) await db('users').insert({ id, email: `${id}@example.com`, displayName: 'Bob' });
    await addAgent(db, { ...made, agentId: agents[1] ?? '' }, 'Mortgages');
    const reader = (userId: string, openTeamIds: string[], isOrgAdmin = false): Actor => ({
      ...{ userId, orgId, isOrgAdmin, openTeamIds, teamIds: openTeamIds, teamAdminOf: [] },
    });
    // In both teams, in one, in none any more, an admin who has said nothing, and somebody of elsewhere.
    const [ada = '', bob = '', eve = ''] = authors;
    readers = [reader(ada, [one, two]), reader(bob, [two]), reader(eve, []), reader(uuidv7(), [one, two], true)];
    const elsewhere = await addOrganization(db);
    await addRound(db, {
      orgId: elsewhere.orgId,
      chatId: await addChat(db, elsewhere, { visibility: 'org_level' }),
      round: 1,
    });
    readers.push({ ...reader(elsewhere.createdBy, [one]), orgId: elsewhere.orgId });
  });
  after(async () => {
    await db.destroy();
    await drop();
  });

  const teamsOf = ({ visibility, teams }: Scope) =>
    visibility === 'team_level' ? teams.map((team) => [one, two][team] ?? one) : [];

  async function apply(trx: Knex, change: Change): Promise<void> {
    if (change.kind === 'begin') {
      const { author, agent, startedAt, scope } = change;
      const by = { orgId, createdBy: authors[author] ?? '', agentId: agents[agent] ?? '' };
      await addChat(trx, by, { visibility: scope.visibility, teamIds: teamsOf(scope), startedAt });
      return;
    }
    const chat = await trx('chats')
      .where({ orgId })
      .orderBy('id')
      .offset(change.place)
      .forUpdate()
      .skipLocked()
      .first();
    if (chat === undefined) return;
    const newest = trx('rounds').where({ chatId: chat.id, round: chat.roundCount });
    switch (change.kind) {
      case 'ask':
        await trx('rounds').where({ chatId: chat.id, status: 'open' }).update({ status: 'error', errorCode: 'any' });
        await addRound(
          trx,
          { orgId, chatId: chat.id, round: chat.roundCount + 1 },
          { status: 'open', latencyMs: null },
        );
        break;
      case 'answer':
        await newest.update({
          status: 'complete',
          inputTokens: change.tokens,
          latencyMs: change.tokens,
          costUsd: 0.00000007,
        });
        break;
      case 'score': {
        const scored = { ...change.score, scoredAt: trx.fn.now() };
        await trx('rounds').where({ chatId: chat.id, status: 'complete', round: change.round }).update(scored);
        await trx('chats').where({ id: chat.id }).update({ echoState: change.score.echoState });
        break;
      }
      case 'fail':
        await newest.whereNull('scoredAt').update({ status: 'error', errorCode: 'any' });
        break;
      case 'delete':
        await trx('chats').where({ id: chat.id }).delete();
        break;
      case 'forget':
        await newest.delete();
        await trx('chats')
          .where({ id: chat.id })
          .update({ roundCount: Math.max(0, chat.roundCount - 1) });
        break;
      case 'share': {
        const { visibility } = change.scope;
        const teamIds = teamsOf(change.scope);
        const acl = accessKeysOfRow({ orgId, createdBy: chat.createdBy, visibility, teamIds });
        await trx('chats').where({ id: chat.id }).update({ visibility, teamIds, acl });
      }
    }
  }

  /** All that a reader may read, one by one. */
  async function readableRows(actor: Actor, { agentId, state, period: { from, until } }: LogFilter) {
    const keys = accessKeysOfActor(actor);
    const chats = await db('chats')
      .where({ orgId: actor.orgId })
      .orderBy([
        { column: 'createdAt', order: 'desc' },
        { column: 'id', order: 'desc' },
      ]);
    const read = chats.filter(
      (chat) =>
        chat.acl.some((key: string) => keys.includes(key)) &&
        (agentId === undefined || chat.agentId === agentId) &&
        (state === undefined || chat.echoState === state) &&
        (from === null || chat.createdAt >= from) &&
        (until === null || chat.createdAt < until),
    );
    const rounds = await db('rounds').whereIn(
      'chatId',
      read.map(({ id }) => id),
    );
    return { ids: read.map(({ id }) => id), rounds };
  }

  async function pagesOf(actor: Actor, filter: LogFilter, limit: number): Promise<string[]> {
    const ids: string[] = [];
    for (let after: ListPosition | null = null; ; ) {
      const { items, last }: Awaited<ReturnType<LogsService['list']>> = await logs.list(actor, filter, {
        limit,
        after,
        includeTotal: false,
      });
      ids.push(...items.map(({ id }) => id));
      if (last === null) return ids;
      after = last;
    }
  }

  async function expectSums(actor: Actor, filter: LogFilter): Promise<void> {
    const { ids, rounds } = await readableRows(actor, filter);
    expect(await pagesOf(actor, filter, 3)).deep.equal(ids);
    expect((await logs.list(actor, filter, { limit: 1, after: null, includeTotal: true })).total).equal(ids.length);
    if (filter.state !== undefined) return;
    const sums = await logs.stats(actor, filter);
    const scored = rounds.filter(({ scoredAt }) => scoredAt !== null);
    const total = (of: (round: Record<string, number>) => number) => rounds.reduce((sum, round) => sum + of(round), 0);
    expect(countScoredRounds(sums)).equal(scored.length);
    expect(sums).deep.include({
      rounds: rounds.length,
      driftRounds: scored.filter(({ echoState }) => echoState.startsWith('drift_')).length,
      refusalRounds: scored.filter(({ echoState }) => echoState === 'refusal').length,
      completedRounds: rounds.filter(({ status }) => status === 'complete').length,
      inputTokens: total(({ inputTokens = 0 }) => inputTokens),
      completionTokens: total(({ completionTokens = 0 }) => completionTokens),
    });
    expect(sums.ewmaSum).closeTo(
      total(({ ewma }) => ewma ?? 0),
      1e-9,
    );
    expect(sums.costUsd).closeTo(
      total(({ costUsd = 0 }) => costUsd),
      1e-9,
    );
  }

  const violations = async (): Promise<string[]> => {
    const found: string[] = [];
    const deps = { db } as Parameters<typeof chatLogsMatchRounds.run>[0];
    const grace = {} as Parameters<typeof chatLogsMatchRounds.run>[1];
    await chatLogsMatchRounds.run(deps, grace, ({ detail }) => found.push(detail));
    return found;
  };

  it('equal the chats that each user may read, after any concurrent changes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyChange, { minLength: 20, maxLength: 40 }), anyFilter, async (changes, asked) => {
        for (let at = 0; at < changes.length; at += 4) {
          const some = changes.slice(at, at + 4);
          await Promise.all(some.map((change) => db.transaction((trx) => apply(trx, change))));
        }
        expect(await violations()).deep.equal([]);
        const { agent, state, from, until } = asked;
        const agentId = agent === undefined ? undefined : agents[agent];
        for (const actor of readers) {
          const none = { agentId: undefined, state: undefined, words: undefined, period: { from: null, until: null } };
          await expectSums(actor, none);
          await expectSums(actor, { ...none, agentId, period: { from, until } });
          await expectSums(actor, { ...none, agentId, state, period: { from, until } });
        }
      }),
      { numRuns: 6 },
    );
  });

  it('are zero and leave no rows after everything was deleted', async () => {
    await db('chats').where({ orgId }).delete();
    expect(await violations()).deep.equal([]);
    expect((await db('logTotals').where({ orgId }).sum<{ sum: number | null }[]>('chats as sum'))[0]?.sum ?? 0).equal(
      0,
    );
  });

  it('are the same when they are computed again', async () => {
    for (let count = 0; count < 5; count += 1) {
      const chatId = await addChat(db, { orgId, createdBy: authors[0] ?? '', agentId: agents[0] ?? '' });
      await addRound(db, { orgId, chatId, round: 1 }, { echoState: 'watch', ewma: 70.123456789, scoredAt: new Date() });
    }
    await db('logTotals').update({ rounds: 7 });
    await db('chatLogs').update({ rounds: 7 });
    expect(await violations()).length.above(0);
    await db.raw('select renew_chat_logs()');
    expect(await violations()).deep.equal([]);
  });

  it('keep correct search words and repair wrong ones when these are computed again', async () => {
    const chatId = await addChat(db, { orgId, createdBy: authors[0] ?? '', agentId: agents[0] ?? '' });
    for (const round of [1, 2, 3]) await addRound(db, { orgId, chatId, round });
    await addRound(db, { orgId, chatId, round: 4 }, { status: 'open', finishedAt: null });
    const texts = () => db('logTexts').where({ chatId }).orderBy('round').select('round', 'words');
    const before = await texts();
    expect(before.map(({ round }) => round)).deep.equal([0, 1, 2, 3]);
    await db('logTexts').where({ chatId, round: 1 }).update({ words: 'something else' });
    await db('logTexts').where({ chatId, round: 2 }).delete();
    await db('logTexts').insert({ orgId, chatId, round: 9, words: 'gone' });
    await db.raw('call renew_log_texts()');
    expect(await texts()).deep.equal(before);
  });
});
