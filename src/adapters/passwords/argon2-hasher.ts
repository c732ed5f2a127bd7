import { randomBytes } from 'node:crypto';
import { hash, verify } from '@node-rs/argon2';
import type { PasswordHasher } from '#src/ports/password-hasher.ts';
import { createGate } from '../gate.ts';

/** The OWASP password storage cheat sheet's figures for Argon2id, which is the library's default, with 19 MiB. */
const parameters = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/** Hashing fills the thread pool that files and token checks share: a storm of logins must leave room in it. */
const maxAtOnce = 2;

/** Argon2id. */
export function createArgon2Hasher(): PasswordHasher {
  const gate = createGate(maxAtOnce);
  const hashPassword = (password: string) => gate(() => hash(password, parameters));
  let nobodysHash: Promise<string> | undefined;

  return {
    hash: hashPassword,
    async verify(stored, password) {
      nobodysHash ??= hashPassword(randomBytes(16).toString('hex'));
      const compareWith = stored ?? (await nobodysHash);
      const matches = await gate(() => verify(compareWith, password));
      return stored !== null && matches;
    },
  };
}
