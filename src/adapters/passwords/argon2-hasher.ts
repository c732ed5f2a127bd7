import { randomBytes } from 'node:crypto';
import { hash, verify } from '@node-rs/argon2';
import { appError } from '#src/errors.ts';
import type { PasswordHasher } from '#src/ports/password-hasher.ts';
import { createGate } from '../gate.ts';

/** Hashing fills the thread pool that files and the signing of tokens share: a storm of logins must leave room in it. */
const maxAtOnce = 2;
/** A few seconds of work; who would wait longer is better told at once. */
const maxWaiting = 100;

/**
 * Argon2id, which is the library's default, with two passes. Hashes made with other parameters are still compared, and
 * outdated. Throws `service_unavailable` when too many ask at once.
 */
export function createArgon2Hasher({ memoryMiB }: { memoryMiB: number }): PasswordHasher {
  const parameters = { memoryCost: memoryMiB * 1_024, timeCost: 2, parallelism: 1 };
  /** How every hash begins that is made with them. */
  const prefix = `$argon2id$v=19$m=${parameters.memoryCost},t=${parameters.timeCost},p=${parameters.parallelism}$`;
  const gate = createGate(maxAtOnce, {
    maxWaiting,
    refusal: () => appError('service_unavailable', { detail: 'Too many are signing in; try again in a moment.' }),
  });
  const nobodysHash = unmatchableHash(prefix);

  return {
    hash: (password) => gate(() => hash(password, parameters)),
    async verify(stored, password) {
      const matches = await gate(() => verify(stored ?? nobodysHash, password));
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
