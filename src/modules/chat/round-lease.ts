import type { Logger } from 'pino';
import { appError } from '#src/errors.ts';
import type { RoundsRepository } from './rounds.repository.ts';

/** A missed renewal or two must not cost the round; the end of a dead process's round must come within 20 s. */
export const leaseSeconds = 15;
const renewEveryMs = 5_000;

/**
 * Renews a round's lease until `stop`. `signal` is aborted when the round turns out to be somebody else's, so that an
 * answer which can no longer be stored is not written to the end.
 */
export function keepLease(
  round: { chatId: string; round: number },
  owner: string,
  rounds: Pick<RoundsRepository, 'renewLease'>,
  logger: Logger,
): { signal: AbortSignal; stop(): void } {
  const lost = new AbortController();
  const timer = setInterval(() => {
    rounds.renewLease(round, { owner, seconds: leaseSeconds }).then(
      (isHeld) => {
        if (!isHeld) lost.abort(appError('interrupted'));
      },
      // The database may be back before the lease is over; storing the answer will tell.
      (error: unknown) => logger.warn({ err: error }, 'the lease of a round could not be renewed'),
    );
  }, renewEveryMs);
  return {
    signal: lost.signal,
    stop: () => clearInterval(timer),
  };
}
