import { randomBytes } from 'node:crypto';
import { hash, verify } from '@node-rs/argon2';
import { appError } from '#src/errors.ts';
import type { PasswordHasher } from '#src/ports/identity.ts';
import { createFairQueue } from '../fair-queue.ts';

/** Hashing fills the thread pool that files and the signing of tokens share: a storm of logins must leave room in it. */
const maxAtOnce = 2;
/** Two seconds of work. */
const maxWaitingPerOwner = 50;

/**
 * Argon2id, which is the library's default, with two passes. Hashes made with other parameters are still compared, and
 * outdated.
 */
export function createArgon2Hasher({ memoryMiB }: { memoryMiB: number }): PasswordHasher {
  const parameters = { memoryCost: memoryMiB * 1_024, timeCost: 2, parallelism: 1 };
  /** How every hash begins that is made with them. */
  const prefix = `$argon2id$v=19$m=${parameters.memoryCost},t=${parameters.timeCost},p=${parameters.parallelism}$`;
  const refusal = () =>
    appError('service_unavailable', { detail: 'Too many passwords are being checked; try again in a moment.' });
  const inTurn = createFairQueue(maxAtOnce, {
    maxRunningPerOwner: maxAtOnce,
    maxRunningInCrowd: 1,
    bound: { maxWaitingPerOwner, refusal },
  });
  const nobodysHash = unmatchableHash(prefix);

  return {
    hash: (password, owner) => inTurn(owner, () => hash(password, parameters)),
    async verify(stored, password, owner) {
      const matches = await inTurn(owner, () => verify(stored ?? nobodysHash, password));
      return stored !== null && matches;
    },
    isOutdated: (stored) => !stored.startsWith(prefix),
  };
}

/** Looks like the hash of a password and costs as much to compare with, but was made of none. */
function unmatchableHash(prefix: string): string {
  const part = (bytes: number) => randomBytes(bytes).toString('base64').replaceAll('=', '');
  return `${prefix}${part(16)}$${part(32)}`;
}
