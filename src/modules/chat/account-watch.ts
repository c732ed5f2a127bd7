import type { Logger } from 'pino';
import { appError } from '#src/errors.ts';
import type { AuthService } from '#src/modules/auth/auth.service.ts';

const lookEveryMs = 2_000;

/**
 * Looks whether an account is active until `stop`. `signal` is aborted when it is not: nobody is left whom an answer
 * could be for, and it must not read documents with his rights.
 */
export function watchAccount(
  userId: string,
  accounts: Pick<AuthService, 'findActor'>,
  logger: Logger,
): { signal: AbortSignal; stop(): void } {
  const gone = new AbortController();
  const timer = setInterval(() => {
    accounts.findActor(userId).then(
      (actor) => {
        if (actor === null) gone.abort(appError('account_disabled'));
      },
      (error: unknown) => logger.warn({ err: error }, 'the account behind a round could not be looked up'),
    );
  }, lookEveryMs);
  return { signal: gone.signal, stop: () => clearInterval(timer) };
}
