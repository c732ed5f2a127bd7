import type { Knex } from 'knex';
import { text } from '#src/adapters/postgres/columns.ts';
import { newestFirst, toPage } from '#src/adapters/postgres/keyset.ts';
import { firstRow, rows, shape } from '#src/adapters/postgres/shapes.ts';
import type { ImportCounts, ImportRun } from '#src/contracts/connectors.ts';
import type { ListPosition } from '#src/contracts/list-position.ts';
import { ConnectionModel } from '#src/modules/connectors/connections.model.ts';
import {
  ConnectorCursorModel,
  type ImportConnection,
  ImportRunModel,
  type ImportRunRow,
  importConnection,
  type NewImportRun,
  type SyncCursor,
  syncCursor,
} from './imports.model.ts';

const listedRun = shape({ ...ImportRunModel.columns, sortKey: text() });

const runKey = ({ orgId, connectionId, runId }: ImportRun) => ({ orgId, connectionId, id: runId });

/** Each may have found many thousand files. */
const OLD_RUNS_AT_ONCE = 20;

/** Runs of imports and syncs, and where the next one goes on. */
export function createImportRunsRepository(db: Knex) {
  const runs = () => ImportRunModel.table(db);
  const connection = (of: { orgId: string; connectionId: string }) =>
    ConnectionModel.table(db).where({ orgId: of.orgId, id: of.connectionId });
  const known = Object.keys(importConnection.columns);

  /** So that nobody deletes it; to be taken before anything that goes with it, as a deletion does. */
  async function holdConnection(of: { orgId: string; connectionId: string }): Promise<void> {
    await connection(of).forKeyShare().first('id');
  }

  return {
    async findConnection(of: { orgId: string; connectionId: string }): Promise<ImportConnection | undefined> {
      return firstRow(db, importConnection, connection(of).select(known));
    },

    /** So that nobody deletes it, or begins another run of it, before the end of the transaction. */
    async lockConnection(of: { orgId: string; connectionId: string }): Promise<ImportConnection | undefined> {
      return firstRow(db, importConnection, connection(of).forNoKeyUpdate().select(known));
    },

    async insert(run: NewImportRun): Promise<void> {
      await runs().insert(run);
    },

    async find(of: ImportRun): Promise<ImportRunRow | undefined> {
      return runs().where(runKey(of)).first();
    },

    holdConnection,

    /** Whoever changes what a run has found holds it, before that; and its job, if he writes that, too, before both. */
    async lock(of: ImportRun): Promise<ImportRunRow | undefined> {
      await holdConnection(of);
      return runs().where(runKey(of)).forUpdate().first();
    },

    async update(
      of: ImportRun,
      change: Partial<Pick<ImportRunRow, 'mode' | 'cursor' | 'isListed' | 'acceptsDeletions' | 'finishedAt'>>,
    ): Promise<void> {
      await runs().where(runKey(of)).update(change);
    },

    async add(of: ImportRun, counts: Partial<ImportCounts>): Promise<void> {
      const more = Object.fromEntries(Object.entries(counts).map(([name, by]) => [name, db.raw('?? + ?', [name, by])]));
      if ((await runs().where(runKey(of)).update(more)) === 0) throw new Error(`there is no run ${of.runId}`);
    },

    /** Of a sync that lists all again: what it has found as it was is found once more. */
    async recount({ runId }: ImportRun): Promise<void> {
      await db.raw(
        `update import_runs r set total = f.total, unchanged = f.unchanged
         from (
           select count(*) as total, count(*) filter (where status = 'unchanged') as unchanged
           from import_files where run_id = :runId
         ) f
         where r.id = :runId`,
        { runId },
      );
    },

    /** Newest first. */
    async listSyncs(
      of: { orgId: string; connectionId: string },
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: ImportRunRow[]; last: ListPosition | null }> {
      const query = runs()
        .where({ ...of, kind: 'sync' })
        .select('importRuns.*');
      const listed = newestFirst(query, { ...page, time: 'importRuns.createdAt', id: 'importRuns.id' });
      return toPage(await rows(db, listedRun, listed), page.limit);
    },

    async findCursor(connectionId: string): Promise<SyncCursor | undefined> {
      const isFresh = db.raw(`reconciled_at > now() - interval '1 day' as is_fresh`);
      const cursor = ConnectorCursorModel.table(db).where({ connectionId });
      return firstRow(db, syncCursor, cursor.select('folder', 'targetFolderId', 'deletesMissing', 'cursor', isFresh));
    },

    /** @param isReconciled all was compared, and not only what has changed */
    async keepCursor(
      of: Pick<ImportRunRow, 'orgId' | 'connectionId' | 'folder' | 'targetFolderId' | 'deletesMissing' | 'cursor'>,
      isReconciled: boolean,
    ): Promise<void> {
      const { orgId, connectionId, folder, targetFolderId, deletesMissing, cursor } = of;
      const kept = { folder, targetFolderId, deletesMissing, cursor };
      await ConnectorCursorModel.table(db)
        .insert({ orgId, connectionId, ...kept, reconciledAt: db.fn.now() })
        .onConflict('connectionId')
        .merge({ ...kept, ...(isReconciled && { reconciledAt: db.fn.now() }) });
    },

    /** Some of what was over so long ago that nobody asks for it any more. @returns false when nothing is left */
    async deleteOld(days: number): Promise<boolean> {
      const old = runs()
        .whereRaw('finished_at < now() - make_interval(days => ?)', [days])
        .orderBy('finishedAt')
        .limit(OLD_RUNS_AT_ONCE)
        .select('id');
      return (await runs().whereIn('id', old).delete()) > 0;
    },
  };
}
