import { createHash, randomBytes } from 'node:crypto';
import type { Knex } from 'knex';
import type { SecretCipher } from '#src/ports/encryption.ts';
import { createOneTimeStatesRepository, type StatesModel } from './one-time-states.repository.ts';

const stateBytes = 32;

/** What comes back with a state; it exists nowhere else any more. One that is not fresh gives no rights. */
export type TakenState<Facts> = Facts & { codeVerifier: string; isFresh: boolean };

/**
 * What is remembered between sending somebody to a provider and his coming back. A state works once, for ten minutes;
 * stored are its hash and, sealed, the verifier of the code that it comes with (RFC 7636).
 */
export type OneTimeStates<Facts> = {
  /** Unguessable. */
  newState(): string;
  keep(state: string, facts: Facts & { codeVerifier: string }): Promise<void>;
  /** Reads a state and leaves it usable. Undefined if it is unknown or was used. */
  find(state: string): Promise<(Facts & { isFresh: boolean }) | undefined>;
  /** Uses a state up. Undefined when nobody has made it, it was used before, or its key went out of the settings. */
  take(state: string): Promise<TakenState<Facts> | undefined>;
  /** A step of the sweeper. */
  deleteExpired(): Promise<void>;
};

export function createOneTimeStates<Facts extends object>(deps: {
  db: Knex;
  secrets: SecretCipher;
  model: StatesModel<Facts>;
}): OneTimeStates<Facts> {
  const { db, secrets, model } = deps;
  const repository = createOneTimeStatesRepository(db, model);
  const placeOf = (stateHash: Buffer) => `${model.tableName}/${stateHash.toString('hex')}`;

  function verifierOf(stateHash: Buffer, sealed: string): string | undefined {
    try {
      return secrets.decrypt(sealed, placeOf(stateHash)).secret;
    } catch {
      return undefined;
    }
  }

  return {
    newState: () => randomBytes(stateBytes).toString('base64url'),

    async keep(state, facts) {
      const stateHash = hashOf(state);
      const codeVerifier = secrets.encrypt(facts.codeVerifier, placeOf(stateHash));
      await repository.insert({ ...facts, stateHash, codeVerifier });
    },

    find: (state) => repository.find(hashOf(state)),

    async take(state) {
      const row = await repository.take(hashOf(state));
      if (row === undefined) return undefined;
      const codeVerifier = verifierOf(row.stateHash, row.codeVerifier);
      return codeVerifier === undefined ? undefined : { ...row, codeVerifier };
    },

    async deleteExpired() {
      await repository.deleteExpired();
    },
  };
}

function hashOf(state: string): Buffer {
  return createHash('sha256').update(state).digest();
}
