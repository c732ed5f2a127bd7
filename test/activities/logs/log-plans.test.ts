import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import type { LogFilter } from '#src/modules/logs/logs.model.ts';
import { createLogsService, type LogsService } from '#src/modules/logs/logs.service.ts';
import { addOrganization } from '#test/support/logged-chats.ts';
import { indexesOf, openQueryPlans, type PlanNode, rowsRead } from '#test/support/query-plans.ts';
import { createTestDatabase } from '#test/support/services.ts';

const chatCount = 4_000;
const everything = { agentId: undefined, state: undefined, words: undefined, period: { from: null, until: null } };

/** How Postgres goes about logs once it knows how much there is. What it takes is measured by `npm run bench:lists`. */
describe('query plans of logs', () => {
  let db: Knex;
  let logs: LogsService;
  let plans: Awaited<ReturnType<typeof openQueryPlans>>;
  let drop: () => Promise<void>;
  let all: Actor;
  let one: Actor;
  let agentId: string;

  before(async () => {
    const database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 2, applicationName: 'test' });
    drop = database.drop;
    logs = createLogsService({ db });
    plans = await openQueryPlans(db, database.url);
    const made = await addOrganization(db);
    agentId = made.agentId;
    const [teamId, userId] = [uuidv7(), uuidv7()];
    await db('users').insert({ id: userId, email: `${userId}@example.com`, displayName: 'Bob' });
    const actor = { orgId: made.orgId, isOrgAdmin: false, teamAdminOf: [] };
    all = { ...actor, userId: made.createdBy, teamIds: [teamId], openTeamIds: [teamId] };
    one = { ...actor, userId, teamIds: [], openTeamIds: [] };
    const values = { ...made, teamId, userId, chatCount };
    await db.raw('alter table chats disable trigger user');
    await db.raw('alter table rounds disable trigger user');
    // Of two authors, one in a hundred by the second for himself, over two years; one in a hundred in refusal.
    await db.raw(
      `insert into chats (id, org_id, agent_id, title, title_source, visibility, acl, round_count, echo_state, rag_enabled,
                          created_by, created_at, updated_at)
       select gen_random_uuid(), :orgId, :agentId, 'Loan ' || n, 'user', 'team_level',
              case when n % 100 = 0 then array['user:' || :userId] else array['user:' || :createdBy, 'team:' || :teamId] end,
              4, case when n % 100 = 7 then 'refusal' else 'stable' end, false,
              case when n % 100 = 0 then :userId::uuid else :createdBy::uuid end, at, at
       from generate_series(1, :chatCount::integer) n
       cross join lateral (select timestamptz '2026-06-01' - n * interval '4 hours' as at) t`,
      values,
    );
    await db.raw(
      `insert into rounds (org_id, chat_id, round, status, user_content, assistant_reply, model, latency_ms, scored_at, ewma, echo_state)
       select org_id, id, n, 'complete', 'How is it repaid?', 'Slowly.', 'any', 100, now(), 90, 'stable'
       from chats cross join generate_series(1, 4) n`,
    );
    await db.raw('alter table chats enable trigger user');
    await db.raw('alter table rounds enable trigger user');
    await db.raw('select renew_chat_logs()');
    await db.raw(
      `insert into log_texts
       select c.org_id, c.id, n, logged_words(c.org_id, case when n = 0 then c.title else 'How is it repaid? Slowly.' end)
       from chats c cross join generate_series(0, 4) n`,
    );
    for (const table of ['chats', 'rounds', 'chat_logs', 'log_totals', 'log_texts'])
      await db.raw(`vacuum analyze ${table}`);
  });
  after(async () => {
    await plans.close();
    await db.destroy();
    await drop();
  });

  const list =
    (actor: Actor, filter: Partial<LogFilter> = {}, includeTotal = false) =>
    () =>
      logs.list(actor, { ...everything, ...filter }, { limit: 20, after: null, includeTotal });

  /** Rows of all tables together, of all that is asked. */
  async function readBy(ask: () => Promise<unknown>, ...tables: string[]): Promise<number> {
    const made: PlanNode[][] = await plans.plansOf(ask);
    return made.flatMap((nodes) => tables.map((table) => rowsRead(nodes, table))).reduce((sum, rows) => sum + rows, 0);
  }

  it('read a page in index order, with every filter', async () => {
    const until = new Date('2025-10-10T10:00:00Z');
    const lists = [
      list(all),
      list(one),
      list(all, { agentId }),
      list(all, { state: 'refusal' }),
      list(all, { agentId, state: 'refusal' }),
      list(all, { period: { from: null, until } }),
    ];
    for (const ask of lists) {
      expect(await readBy(ask, 'chat_logs')).below(150);
      expect(await readBy(ask, 'chats', 'rounds')).below(150);
    }
  });

  it('read single chats only of the first and last day of a period', async () => {
    const period = { from: new Date('2025-02-03T10:00:00Z'), until: new Date('2026-05-05T11:00:00Z') };
    for (const filter of [{}, { state: 'refusal' as const }, { agentId }, { period }]) {
      const page = await readBy(list(all, filter), 'chat_logs');
      expect((await readBy(list(all, filter, true), 'chat_logs')) - page).below(30);
    }
  });

  it('aggregate a few hundred totals and read no round', async () => {
    const period = { from: new Date('2025-02-03T10:00:00Z'), until: new Date('2026-05-05T11:00:00Z') };
    for (const filter of [everything, { ...everything, period }, { ...everything, agentId }]) {
      const stats = () => logs.stats(all, filter);
      expect(await readBy(stats, 'rounds', 'chats')).equal(0);
      expect(await readBy(stats, 'log_totals', 'chat_logs')).below(300);
    }
  });

  it('find a frequent word among the newest chats, and a rare one by the index', async () => {
    for (const words of ['repaid', 'loan 3217']) {
      expect(await readBy(list(all, { words }), 'log_texts'), words).below(1_600);
      const [walk = [], rest] = await plans.plansOf(list(all, { words }));
      expect(indexesOf(walk)).include('log_texts_pkey').and.not.include('log_texts_words_idx');
      if (rest !== undefined) expect(indexesOf(rest)).include('log_texts_words_idx');
    }
    const found = await logs.list(
      all,
      { ...everything, words: 'loan 3217' },
      { limit: 20, after: null, includeTotal: true },
    );
    expect(found.items.map(({ title }) => title)).deep.equal(['Loan 3217']);
    expect(found.total).equal(1);
  });

  it('read no other chats in a search of a user who may read few, however frequent the word', async () => {
    const period = { from: null, until: new Date('2024-10-01T00:00:00Z') };
    const ask = list(one, { words: 'repaid', period });
    expect((await ask()).items).length.within(1, 19);
    expect(await readBy(ask, 'log_texts')).below(200);
  });

  it('read the last changed chats and the agents by an index', async () => {
    for (const ask of [
      () => logs.recent(all, { limit: 31, mine: false }),
      () => logs.recent(all, { limit: 31, mine: true }),
    ]) {
      expect(await readBy(ask, 'chat_logs', 'chats')).below(150);
    }
    expect(await readBy(() => logs.agents(all), 'chat_logs', 'chats')).below(20);
  });
});
