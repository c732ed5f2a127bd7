import { createTemporalConnection, type TemporalConnection } from '#src/temporal/connection.ts';

const CALL_TIMEOUT_MS = 30_000;

/** A connection as production makes it, but for its haste: the engine is kept busy by all tests that run beside. */
export function connectToTemporal(options: Parameters<typeof createTemporalConnection>[0]): TemporalConnection {
  const connection = createTemporalConnection(options);
  return { ...connection, call: (work, timeoutMs = CALL_TIMEOUT_MS) => connection.call(work, timeoutMs) };
}
