import { createHash, randomBytes } from 'node:crypto';
import type { Knex } from 'knex';
import { boolean, type Column, type Columns, firstRow, shape } from '#src/adapters/postgres/shapes.ts';
import type { SecretCipher } from '#src/ports/encryption.ts';

const stateBytes = 32;
const lifetimeMinutes = 10;

/** Row of a state, whose `codeVerifier` is encrypted for this row. */
type StateRow<Facts> = Facts & { stateHash: Buffer; codeVerifier: string };

type TakenRow<Facts> = StateRow<Facts> & { isFresh: boolean };

/** A table of states: its columns are the facts of one purpose and those of every state. */
export type StatesModel<Facts> = {
  tableName: string;
  columns: Columns & { readonly [Name in keyof StateRow<Facts>]: Column<StateRow<Facts>[Name]> };
};

/** The facts of a state whose row was deleted. If `isFresh` is false the state has expired: refuse it. */
export type TakenState<Facts> = Facts & { codeVerifier: string; isFresh: boolean };

/**
 * States of requests at a provider (OAuth 2.0 `state`): what to keep between sending a browser to the provider and its
 * redirect back. A state works once, for ten minutes. The table has its hash only; the code verifier (RFC 7636) is
 * encrypted.
 */
export type OneTimeStates<Facts> = {
  newState(): string;
  keep(state: string, facts: Facts & { codeVerifier: string }): Promise<void>;
  /** Reads a state and leaves it usable. Undefined if it is unknown or was used. */
  find(state: string): Promise<(Facts & { isFresh: boolean }) | undefined>;
  /** Deletes a state and returns it. Undefined if it is unknown or used, or no configured key decrypts its verifier. */
  take(state: string): Promise<TakenState<Facts> | undefined>;
  deleteExpired(): Promise<void>;
};

export function createOneTimeStates<Facts extends object>(deps: {
  db: Knex;
  secrets: SecretCipher;
  model: StatesModel<Facts>;
}): OneTimeStates<Facts> {
  const { db, secrets, model } = deps;
  const table = statesTable(db, model);
  const placeOf = (stateHash: Buffer) => `${model.tableName}/${stateHash.toString('hex')}`;

  function verifierOf(stateHash: Buffer, encrypted: string): string | undefined {
    try {
      return secrets.decrypt(encrypted, placeOf(stateHash)).secret;
    } catch {
      return undefined;
    }
  }

  return {
    newState: () => randomBytes(stateBytes).toString('base64url'),

    async keep(state, facts) {
      const stateHash = hashOf(state);
      const codeVerifier = secrets.encrypt(facts.codeVerifier, placeOf(stateHash));
      await table.insert({ ...facts, stateHash, codeVerifier });
    },

    find: (state) => table.find(hashOf(state)),

    async take(state) {
      const row = await table.take(hashOf(state));
      if (row === undefined) return undefined;
      const codeVerifier = verifierOf(row.stateHash, row.codeVerifier);
      return codeVerifier === undefined ? undefined : { ...row, codeVerifier };
    },

    async deleteExpired() {
      await table.deleteExpired();
    },
  };
}

function statesTable<Facts extends object>(db: Knex, { tableName, columns }: StatesModel<Facts>) {
  const taken = shape({ ...columns, isFresh: boolean() });

  return {
    async insert(row: StateRow<Facts>): Promise<void> {
      const expiresAt = db.raw('now() + make_interval(mins => ?)', [lifetimeMinutes]);
      await db(tableName).insert({ ...row, expiresAt });
    },

    async find(stateHash: Buffer): Promise<TakenRow<Facts> | undefined> {
      const sql = 'select *, expires_at > now() as is_fresh from ?? where state_hash = ?';
      const row: unknown = await firstRow(db, taken, sql, [tableName, stateHash]);
      return row as TakenRow<Facts> | undefined;
    },

    /** Deletes the row that it returns, so that only one of concurrent calls gets it. */
    async take(stateHash: Buffer): Promise<TakenRow<Facts> | undefined> {
      const sql = 'delete from ?? where state_hash = ? returning *, expires_at > now() as is_fresh';
      const row: unknown = await firstRow(db, taken, sql, [tableName, stateHash]);
      // The compiler does not infer facts from the columns of a type parameter; StatesModel says that they are the same.
      return row as TakenRow<Facts> | undefined;
    },

    async deleteExpired(): Promise<void> {
      await db(tableName).where('expiresAt', '<', db.fn.now()).delete();
    },
  };
}

function hashOf(state: string): Buffer {
  return createHash('sha256').update(state).digest();
}
