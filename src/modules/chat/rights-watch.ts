import type { Logger } from 'pino';
import { type Actor, hasLostKeys } from '#src/domain/access/visibility.ts';
import { AppError, appError } from '#src/errors.ts';

const checkEveryMs = 2_000;

/**
 * Checks the rights of a user until `stop`. `signal` is aborted with the reason once the account is disabled or gone, or
 * once the user has lost access to a team or the organization's administration and `onLoss` gives a reason.
 */
export function watchRights(
  actor: Actor,
  deps: {
    findActor: () => Promise<Actor | null>;
    onLoss: (now: Actor) => Promise<AppError | null>;
    logger: Pick<Logger, 'warn'>;
  },
): { signal: AbortSignal; stop(): void } {
  const { findActor, onLoss, logger } = deps;
  const lost = new AbortController();
  let held = actor;

  async function check(): Promise<void> {
    const now = await findActor();
    const isReduced = now !== null && hasLostKeys(held, now);
    const reason = now === null ? appError('account_disabled') : isReduced ? await onLoss(now) : null;
    if (reason !== null) lost.abort(reason);
    if (now !== null) held = now;
  }

  const timer = setInterval(() => {
    check().catch((error: unknown) => {
      // The session is over: its streams are ended by their own check.
      if (error instanceof AppError) return;
      logger.warn({ err: error }, 'the rights of a user could not be checked');
    });
  }, checkEveryMs);
  return { signal: lost.signal, stop: () => clearInterval(timer) };
}
