import type { Telemetry } from '#src/ports/telemetry.ts';

const operations = new Set(['select', 'insert', 'update', 'delete', 'with', 'begin', 'commit', 'rollback']);
/** The table that a statement is first of all about. */
const table = /\b(?:from|into|update)\s+"?([a-z_]+)/i;

/** For each statement a measurement, and within a trace a span: its verb and table, and never the rest of it. */
export function createStatementObserver({ metrics, tracing }: Telemetry) {
  return (sql: string) => {
    const startedMs = performance.now();
    const verb = /^\W*(\w+)/.exec(sql)?.[1]?.toLowerCase() ?? '';
    const operation = operations.has(verb) ? verb : 'other';
    const span = tracing.isOn ? tracing.start(spanOf(operation, sql)) : undefined;
    return (failure: string | undefined) => {
      span?.end(failure);
      const seconds = (performance.now() - startedMs) / 1_000;
      metrics.time('acs_db_query_duration_seconds', { operation, outcome: failure ?? 'ok' }, seconds);
    };
  };
}

function spanOf(operation: string, sql: string) {
  const collection = table.exec(sql)?.[1];
  return {
    name: collection === undefined ? operation : `${operation} ${collection}`,
    kind: 'client' as const,
    attributes: {
      'db.system.name': 'postgresql',
      'db.operation.name': operation,
      'db.collection.name': collection,
    },
  };
}

type Pool = { numUsed(): number; numFree(): number; numPendingAcquires(): number; max: number };

/** @param pool that of knex */
export function measurePool({ metrics }: Pick<Telemetry, 'metrics'>, pool: Pool): void {
  metrics.gauge('acs_db_pool_connections', () => [
    { labels: { state: 'in_use' }, value: pool.numUsed() },
    { labels: { state: 'idle' }, value: pool.numFree() },
  ]);
  metrics.gauge('acs_db_pool_waiting', () => [{ labels: {}, value: pool.numPendingAcquires() }]);
  metrics.gauge('acs_db_pool_size', () => [{ labels: {}, value: pool.max }]);
}
