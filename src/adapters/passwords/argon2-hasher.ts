import { randomBytes } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { hash, verify } from '@node-rs/argon2';
import { appError } from '#src/errors.ts';
import type { PasswordHasher } from '#src/ports/identity.ts';
import { createFairWorkQueue } from '../limits.ts';

/**
 * Concurrent password hashes: few, because the thread pool also serves file access and token signing. One core stays
 * free for requests.
 */
const maxAtOnce = Math.max(1, Math.min(2, availableParallelism() - 1));
const maxWaitingPerOwner = 50;

/**
 * Hashes passwords by Argon2id with two passes. Hashes with other parameters can still be verified, but are reported as
 * outdated.
 */
export function createArgon2Hasher({ memoryMiB }: { memoryMiB: number }): PasswordHasher {
  const parameters = { memoryCost: memoryMiB * 1_024, timeCost: 2, parallelism: 1 };
  const prefix = `$argon2id$v=19$m=${parameters.memoryCost},t=${parameters.timeCost},p=${parameters.parallelism}$`;
  const refusal = () =>
    appError('service_unavailable', { detail: 'Too many passwords are being checked; try again in a moment.' });
  const inTurn = createFairWorkQueue(maxAtOnce, {
    maxRunningPerOwner: maxAtOnce,
    maxRunningInCrowd: 1,
    bound: { maxWaitingPerOwner, refusal },
  });
  const dummyHash = unmatchableHash(prefix);

  return {
    hash: (password, owner) => inTurn(owner, () => hash(password, parameters)),
    async verify(stored, password, owner) {
      const matches = await inTurn(owner, () => verify(stored ?? dummyHash, password));
      return stored !== null && matches;
    },
    isOutdated: (stored) => !stored.startsWith(prefix),
  };
}

/** A random hash for unknown accounts: verifying takes as long as with a real one, so timing reveals nothing. */
function unmatchableHash(prefix: string): string {
  const part = (bytes: number) => randomBytes(bytes).toString('base64').replaceAll('=', '');
  return `${prefix}${part(16)}$${part(32)}`;
}
