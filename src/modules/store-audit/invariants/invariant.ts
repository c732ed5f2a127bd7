import type { Knex } from 'knex';
import { NIL } from 'uuid';
import {
  bigintColumn,
  type ColumnDefinition,
  defineRowShape,
  queryOneRow,
  queryRows,
  type RowShape,
  type SqlRow,
  textColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';

export type InvariantId = `I${1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 | 14 | 15 | 16 | 17 | 18}`;

export type InvariantViolation = { invariant: InvariantId; detail: string; orgId: string; documentId?: string };

export type InvariantDeps = {
  db: Knex;
  vectors: Pick<VectorStore, 'findExisting' | 'listGenerations' | 'countGenerations'>;
  blobs: Pick<BlobStore, 'list' | 'exists'>;
  orchestrator: Pick<Orchestrator, 'describe'>;
};

/** Grace periods in seconds, in which unfinished work is no violation; 0 in tests that wait for its end. */
export type InvariantGracePeriods = {
  /** Grace period for unreferenced blobs and vectors, which may be about to be used or deleted. */
  orphanSeconds: number;
  /** Grace period for open jobs whose workflow run is closed, until the sweeper closes them. */
  reconcileSeconds: number;
  dispatchSeconds: number;
  /** Grace period for data of deleted users and organizations, counted from the day on which its erasure was due. */
  erasureSeconds: number;
};

export type InvariantCheck = {
  invariant: InvariantId;
  title: string;
  /** Checks the invariant and calls `report` for each violation. Returns the number of checked items. */
  run(
    deps: InvariantDeps,
    grace: InvariantGracePeriods,
    report: (violation: Omit<InvariantViolation, 'invariant'>) => void,
  ): Promise<number>;
};

export const violatingRowShape = defineRowShape({ id: uuidColumn(), orgId: uuidColumn(), fault: textColumn() });

const PAGE_SIZE = 1_000;

/** Runs `sql` page by page, ordered by `id`; `sql` must contain `:after`, the last id of the previous page. */
export async function* queryRowPagesById<S extends RowShape & { columns: { id: ColumnDefinition<string> } }>(
  db: Knex,
  source: S,
  sql: string,
  values: { after: string; [name: string]: string | number } = { after: NIL },
  pageSize = PAGE_SIZE,
): AsyncGenerator<SqlRow<S>[]> {
  for (let { after } = values; ; ) {
    const page = await queryRows(db, source, `${sql} order by id limit ${pageSize}`, { ...values, after });
    yield page;
    const id: unknown = page.at(-1)?.id;
    if (typeof id !== 'string' || page.length < pageSize) return;
    after = id;
  }
}

const counted = defineRowShape({ count: bigintColumn() });

export async function countRows(db: Knex, table: string, condition = 'true'): Promise<number> {
  return (await queryOneRow(db, counted, `select count(*) from ${table} where ${condition}`)).count;
}
