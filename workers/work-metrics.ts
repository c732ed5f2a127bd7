import type { Container } from '#src/container.ts';

/** Two statements and twenty calls of the engine: scrapes that come closer together get the same. */
const READ_EVERY_MS = 15_000;

/**
 * What waits to be done, of the whole deployment. Every worker says the same, and no API does: take the greatest and
 * not the sum.
 */
export function measureWork({ jobs, orchestrator, telemetry }: Container): void {
  const { metrics } = telemetry;
  let read: ReturnType<typeof jobs.statistics> | undefined;
  let readAgainMs = 0;
  const statistics = () => {
    if (read === undefined || performance.now() >= readAgainMs) {
      readAgainMs = performance.now() + READ_EVERY_MS;
      read = jobs.statistics();
      read.catch(() => {
        read = undefined;
      });
    }
    return read;
  };

  metrics.gauge('acs_jobs_open', async () => {
    const sums = new Map<string, { labels: { kind: string; status: string }; value: number }>();
    for (const { kind, status, count } of (await statistics()).open) {
      const key = `${kind} ${status}`;
      sums.set(key, { labels: { kind, status }, value: (sums.get(key)?.value ?? 0) + count });
    }
    return [...sums.values()];
  });
  metrics.gauge('acs_jobs_parked', async () =>
    (await statistics()).open.flatMap(({ kind, status, errorCode, count }) =>
      status === 'parked' ? [{ labels: { kind, code: errorCode ?? 'unknown' }, value: count }] : [],
    ),
  );
  metrics.gauge('acs_outbox_waiting', async () => [{ labels: {}, value: (await statistics()).outbox.waiting }]);
  metrics.gauge('acs_outbox_oldest_seconds', async () => [
    { labels: {}, value: (await statistics()).outbox.oldestSeconds },
  ]);
  metrics.gauge(
    'acs_task_queue_backlog',
    async () => (await orchestrator.backlog()).map(({ count, ...labels }) => ({ labels, value: count })),
    READ_EVERY_MS,
  );
}
