import type { Knex } from 'knex';
import { NIL } from 'uuid';
import type { SecretCipher } from '#src/ports/encryption.ts';
import type { CredentialsTable, StoredCredentials } from './credentials.model.ts';
import { createCredentialsRepository } from './credentials.repository.ts';

export type { OAuthGrant } from './credentials.model.ts';

const RESEALED_AT_ONCE = 500;

type Place = Pick<StoredCredentials, 'orgId' | 'id'>;

/** Credentials of a table as they are stored: sealed, each for its own row. */
export function createStoredCredentials<Credentials>(deps: {
  db: Knex;
  secrets: SecretCipher;
  table: CredentialsTable;
}) {
  const { db, secrets, table } = deps;
  const repository = createCredentialsRepository(db, table);
  const placeOf = ({ orgId, id }: Place) => `${table}/${orgId}/${id}`;

  /** What an older key has sealed is sealed anew on the way. Throws `credentials_unreadable`. */
  async function open(row: StoredCredentials): Promise<Credentials> {
    const place = placeOf(row);
    const { secret, isStale } = secrets.decrypt(row.credentials, place);
    if (isStale) await repository.reseal(row, secrets.encrypt(secret, place));
    return JSON.parse(secret) as Credentials;
  }

  function isReadable(row: StoredCredentials): boolean {
    try {
      secrets.decrypt(row.credentials, placeOf(row));
      return true;
    } catch {
      return false;
    }
  }

  return {
    seal: (row: Place, credentials: Credentials): string => secrets.encrypt(JSON.stringify(credentials), placeOf(row)),

    open,

    /** How many rows none of the keys opens. */
    async countUnreadable(): Promise<number> {
      let count = 0;
      for (let after: string = NIL; ; ) {
        const some = await repository.list(after, RESEALED_AT_ONCE);
        for (const row of some) if (!isReadable(row)) count += 1;
        const last = some.at(-1);
        if (last === undefined) return count;
        after = last.id;
      }
    },

    /**
     * Seals by the first key what others have sealed, so that those can be taken out of the settings.
     * @returns how many are sealed anew, and how many nobody can open
     */
    async reseal(): Promise<{ resealed: number; unreadable: number }> {
      const counts = { resealed: 0, unreadable: 0 };
      for (let after: string = NIL; ; ) {
        const some = await repository.listSealedByOthers(secrets.activeKeyId, after, RESEALED_AT_ONCE);
        for (const row of some) {
          const isOpen = await open(row).then(
            () => true,
            () => false,
          );
          counts[isOpen ? 'resealed' : 'unreadable'] += 1;
        }
        const last = some.at(-1);
        if (last === undefined) return counts;
        after = last.id;
      }
    },
  };
}

export type StoredCredentialsService<Credentials> = ReturnType<typeof createStoredCredentials<Credentials>>;
