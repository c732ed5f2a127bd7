import { expect } from 'chai';
import fc from 'fast-check';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { type Actor, accessKeysOfActor, accessKeysOfRow, type Visibility } from '#src/domain/access/visibility.ts';
import { echoStates } from '#src/domain/alignment/chat-state.ts';
import { countScoredRounds, type LogFilter } from '#src/modules/logs/logs.model.ts';
import { createLogsService, type LogsService } from '#src/modules/logs/logs.service.ts';
import { chatLogsMatchRounds } from '#src/modules/store-audit/invariants/chats.ts';
import { addOrganization } from '#test/support/indexed-documents.ts';
import { useTestDatabase } from '#test/support/services.ts';
import { addAgent, addChat, addRound } from '#test/support/stored-rows.ts';

const firstDay = Date.parse('2026-01-27T00:00:00Z');
const [one, two] = [uuidv7(), uuidv7()];
/** Five weeks around the ends of two months, often at the very beginning of a day. */
const anyTime = fc
  .tuple(fc.nat({ max: 35 }), fc.oneof(fc.constant(0), fc.nat({ max: 86_399_999 })))
  .map(([day, ms]) => new Date(firstDay + day * 86_400_000 + ms));
const kinds = [
  ...(['begin', 'begin', 'begin', 'ask', 'ask', 'ask', 'answer', 'answer', 'answer'] as const),
  ...(['score', 'score', 'score', 'score', 'fail', 'delete', 'forget', 'share'] as const),
];
/** What happens to a chat; each kind reads some of the other fields. */
const anyChange = fc.record({
  ...{ kind: fc.constantFrom(...kinds), place: fc.nat({ max: 19 }), startedAt: anyTime },
  ...{ author: fc.nat({ max: 2 }), agent: fc.nat({ max: 1 }), tokens: fc.nat({ max: 5_000 }) },
  visibility: fc.constantFrom<Visibility>('personal', 'team_level', 'org_level'),
  teams: fc.subarray([one, two], { minLength: 1 }),
  round: fc.nat({ max: 2 }),
  score: fc.record({
    echoState: fc.constantFrom(...echoStates),
    ewma: fc.double({ min: 0, max: 100, noNaN: true }),
  }),
});
type Change = typeof anyChange extends fc.Arbitrary<infer Value> ? Value : never;
const anyFilter = fc.record({
  agent: fc.option(fc.nat({ max: 1 }), { nil: undefined }),
  state: fc.option(fc.constantFrom(...echoStates), { nil: undefined }),
  period: fc.record({ from: fc.option(anyTime), until: fc.option(anyTime) }),
});

describe('statistics of chats', () => {
  const own = useTestDatabase(8);
  let logs: LogsService;
  let orgId: string;
  let authors: string[];
  let agents: string[];
  let readers: Actor[];

  before(async () => {
    const { db } = own;
    logs = createLogsService({ db });
    const organization = await addOrganization(db);
    orgId = organization.orgId;
    authors = [organization.userId, uuidv7(), uuidv7()];
    agents = [uuidv7(), uuidv7()];
    for (const id of authors.slice(1)) await db('users').insert({ id, email: `${id}@example.com`, displayName: 'Bob' });
    for (const agentId of agents) await addAgent(db, { orgId, createdBy: organization.userId, agentId });
    const other = await addOrganization(db);
    const ofOther = { orgId: other.orgId, createdBy: other.userId, agentId: uuidv7() };
    await addAgent(db, ofOther);
    const chatId = await addChat(db, ofOther, { visibility: 'org_level' });
    await addRound(db, { orgId: other.orgId, chatId, round: 1 });
    const reader = (userId: string, teamIds: string[], isOrgAdmin = false): Actor => {
      return {
        userId,
        orgId,
        isOrgAdmin,
        openTeamIds: teamIds,
        teamIds,
        teamAdminOf: [],
        contributesToOrganization: false,
      };
    };
    // Members of two teams, of one and of none, an admin without chats, and a user of another organization.
    const [ada = '', bob = '', eve = ''] = authors;
    readers = [
      ...[reader(ada, [one, two]), reader(bob, [two]), reader(eve, []), reader(uuidv7(), [one, two], true)],
      { ...reader(other.userId, [one]), orgId: other.orgId },
    ];
  });

  async function apply(trx: Knex, change: Change): Promise<void> {
    const { visibility, round, score, tokens, startedAt } = change;
    const teamIds = visibility === 'team_level' ? change.teams : [];
    if (change.kind === 'begin') {
      const by = { orgId, createdBy: authors[change.author] ?? '', agentId: agents[change.agent] ?? '' };
      return void (await addChat(trx, by, { visibility, teamIds, startedAt }));
    }
    const chats = trx('chats').where({ orgId }).orderBy('id').offset(change.place);
    const chat = await chats.forUpdate().skipLocked().first();
    if (chat === undefined) return;
    const { id: chatId, roundCount, createdBy } = chat;
    const rounds = (columns: object) => trx('rounds').where({ chatId, ...columns });
    const newest = rounds({ round: roundCount });
    const updateChat = (columns: object) => trx('chats').where({ id: chatId }).update(columns);
    const failed = { status: 'error', errorCode: 'any' };
    const acl = accessKeysOfRow({ orgId, createdBy, visibility, teamIds });
    const happens: Record<Exclude<Change['kind'], 'begin'>, () => PromiseLike<unknown>> = {
      ask: async () => {
        await rounds({ status: 'open' }).update(failed);
        await addRound(trx, { orgId, chatId, round: roundCount + 1 }, { status: 'open', latencyMs: null });
      },
      answer: () => newest.update({ status: 'complete', inputTokens: tokens, latencyMs: tokens, costUsd: 0.00000007 }),
      score: async () => {
        await rounds({ status: 'complete', round }).update({ ...score, scoredAt: trx.fn.now() });
        await updateChat({ echoState: score.echoState });
      },
      fail: () => newest.whereNull('scoredAt').update(failed),
      delete: () => trx('chats').where({ id: chatId }).delete(),
      forget: async () => {
        await newest.delete();
        await updateChat({ roundCount: Math.max(0, roundCount - 1) });
      },
      share: () => updateChat({ visibility, teamIds, acl }),
    };
    await happens[change.kind]();
  }

  /** Filters all chats of the organization one by one. */
  async function readableRows(actor: Actor, { agentId, state, period: { from, until } }: LogFilter) {
    const keys = accessKeysOfActor(actor);
    const newestFirst = ['createdAt', 'id'].map((column) => ({ column, order: 'desc' }));
    const chats = await own.db('chats').where({ orgId: actor.orgId }).orderBy(newestFirst);
    const ids: string[] = chats.flatMap((chat) =>
      chat.acl.some((key: string) => keys.includes(key)) &&
      (agentId === undefined || chat.agentId === agentId) &&
      (state === undefined || chat.echoState === state) &&
      (from === null || chat.createdAt >= from) &&
      (until === null || chat.createdAt < until)
        ? [chat.id]
        : [],
    );
    return { ids, rounds: await own.db('rounds').whereIn('chatId', ids) };
  }

  async function expectTotals(actor: Actor, filter: LogFilter): Promise<void> {
    const { ids, rounds } = await readableRows(actor, filter);
    const { items, total: count } = await logs.list(actor, filter, { limit: 1_000, after: null, includeTotal: true });
    expect(items.map(({ id }) => id)).deep.equal(ids);
    expect(count).equal(ids.length);
    if (filter.state !== undefined) return;
    const totals = await logs.stats(actor, filter);
    const scored = rounds.filter(({ scoredAt }) => scoredAt !== null);
    const total = (column: string) => rounds.reduce((sum, round) => sum + (round[column] ?? 0), 0);
    expect(countScoredRounds(totals)).equal(scored.length);
    expect(totals).deep.include({
      rounds: rounds.length,
      driftRounds: scored.filter(({ echoState }) => echoState.startsWith('drift_')).length,
      refusalRounds: scored.filter(({ echoState }) => echoState === 'refusal').length,
      completedRounds: rounds.filter(({ status }) => status === 'complete').length,
      inputTokens: total('inputTokens'),
      completionTokens: total('completionTokens'),
    });
    expect(totals.ewmaSum).closeTo(total('ewma'), 1e-9);
    expect(totals.costUsd).closeTo(total('costUsd'), 1e-9);
  }

  const violations = async (): Promise<string[]> => {
    const found: string[] = [];
    const [deps, grace] = [{ db: own.db }, {}] as unknown as Parameters<typeof chatLogsMatchRounds.run>;
    await chatLogsMatchRounds.run(deps, grace, ({ detail }) => found.push(detail));
    return found;
  };

  it('count, after concurrent changes, exactly the chats that each user may read', async () => {
    const changes = fc.array(anyChange, { minLength: 20, maxLength: 40 });
    const equal = fc.asyncProperty(changes, anyFilter, async (happened, { agent, state, period }) => {
      for (let at = 0; at < happened.length; at += 4) {
        const some = happened.slice(at, at + 4);
        await Promise.all(some.map((change) => own.db.transaction((trx) => apply(trx, change))));
      }
      expect(await violations()).deep.equal([]);
      const agentId = agent === undefined ? undefined : agents[agent];
      const none = { agentId: undefined, state: undefined, words: undefined, period: { from: null, until: null } };
      for (const actor of readers) {
        for (const filter of [none, { ...none, agentId, period }, { ...none, agentId, state, period }]) {
          await expectTotals(actor, filter);
        }
      }
    });
    await fc.assert(equal, { numRuns: 6 });
  });
});
