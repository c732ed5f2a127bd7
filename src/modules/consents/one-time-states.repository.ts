import { createHash, randomBytes } from 'node:crypto';
import type { Knex } from 'knex';
import {
  booleanColumn,
  type ColumnDefinition,
  type ColumnDefinitions,
  defineRowShape,
  queryFirstRow,
} from '#src/adapters/postgres/shapes.ts';
import type { SecretCipher } from '#src/ports/encryption.ts';

const stateBytes = 32;
const lifetimeMinutes = 10;

type StateRow<Facts> = Facts & { stateHash: Buffer; codeVerifier: string };

type TakenRow<Facts> = StateRow<Facts> & { isFresh: boolean };

type StatesModel<Facts> = {
  tableName: string;
  columns: ColumnDefinitions & { readonly [Name in keyof StateRow<Facts>]: ColumnDefinition<StateRow<Facts>[Name]> };
};

/** An OAuth state whose row was deleted. If `isFresh` is false, it has expired and must be rejected. */
type TakenState<Facts> = Facts & { codeVerifier: string; isFresh: boolean };

/**
 * Stores the OAuth 2.0 `state` between the redirect to the provider and the callback. Each state works once, for ten
 * minutes. The table stores only the hash of the state; the code verifier (RFC 7636) is encrypted.
 */
export type OAuthStateStore<Facts> = {
  newState(): string;
  keep(state: string, facts: Facts & { codeVerifier: string }): Promise<void>;
  /** Reads an OAuth state without deleting it. Returns undefined if the state is unknown or was used. */
  find(state: string): Promise<(Facts & { isFresh: boolean }) | undefined>;
  /**
   * Deletes an OAuth state and returns it. Returns undefined if the state is unknown or used, or if no configured key
   * decrypts its code verifier.
   */
  take(state: string): Promise<TakenState<Facts> | undefined>;
  deleteExpired(): Promise<number>;
};

export function createOAuthStateStore<Facts extends object>(deps: {
  db: Knex;
  secrets: SecretCipher;
  model: StatesModel<Facts>;
}): OAuthStateStore<Facts> {
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

    deleteExpired: () => table.deleteExpired(),
  };
}

function statesTable<Facts extends object>(db: Knex, { tableName, columns }: StatesModel<Facts>) {
  const taken = defineRowShape({ ...columns, isFresh: booleanColumn() });

  return {
    async insert(row: StateRow<Facts>): Promise<void> {
      const expiresAt = db.raw('now() + make_interval(mins => ?)', [lifetimeMinutes]);
      await db(tableName).insert({ ...row, expiresAt });
    },

    async find(stateHash: Buffer): Promise<TakenRow<Facts> | undefined> {
      const sql = 'select *, expires_at > now() as is_fresh from ?? where state_hash = ?';
      const row: unknown = await queryFirstRow(db, taken, sql, [tableName, stateHash]);
      return row as TakenRow<Facts> | undefined;
    },

    /** Deletes and returns the state row in one statement, so that only one of several concurrent calls gets it. */
    async take(stateHash: Buffer): Promise<TakenRow<Facts> | undefined> {
      const sql = 'delete from ?? where state_hash = ? returning *, expires_at > now() as is_fresh';
      const row: unknown = await queryFirstRow(db, taken, sql, [tableName, stateHash]);
      // Casts the row because TypeScript cannot infer its type from a generic table; the type `StatesModel` guarantees
      // that the columns match.
      return row as TakenRow<Facts> | undefined;
    },

    async deleteExpired(): Promise<number> {
      return db(tableName).where('expiresAt', '<', db.fn.now()).delete();
    },
  };
}

function hashOf(state: string): Buffer {
  return createHash('sha256').update(state).digest();
}
