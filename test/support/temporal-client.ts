import { createTemporalConnection, type TemporalConnection } from '#src/temporal/connection.ts';

/** Longer than in production, so that CPU contention does not fail tests. */
export const testCallTimeoutMs = 60_000;

type Options = Omit<Parameters<typeof createTemporalConnection>[0], 'callTimeoutMs'>;

/** A production connection with the call timeout of tests. */
export function connectToTemporal(options: Options): TemporalConnection {
  return createTemporalConnection({ ...options, callTimeoutMs: testCallTimeoutMs });
}
