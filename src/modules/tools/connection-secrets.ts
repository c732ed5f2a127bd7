import { NIL } from 'uuid';
import type { Db } from '#src/ports/database.ts';
import type { SecretBox } from '#src/ports/secret-box.ts';
import type { Credentials, ToolConnection } from './tool-connections.model.ts';
import { createToolConnectionsRepository } from './tool-connections.repository.ts';

const RESEALED_AT_ONCE = 500;

type Place = Pick<ToolConnection, 'orgId' | 'id'>;

/** Credentials as they are stored: sealed, each for its own row. */
export function createConnectionSecrets({ db, secrets }: { db: Db; secrets: SecretBox }) {
  const repository = createToolConnectionsRepository(db);
  const placeOf = ({ orgId, id }: Place) => `tool_connections/${orgId}/${id}`;

  /** What an older key has sealed is sealed anew on the way. Throws `credentials_unreadable`. */
  async function open(connection: ToolConnection): Promise<Credentials> {
    const place = placeOf(connection);
    const { secret, isStale } = secrets.open(connection.credentials, place);
    if (isStale) await repository.reseal(connection, secrets.seal(secret, place));
    return JSON.parse(secret) as Credentials;
  }

  return {
    seal: (connection: Place, credentials: Credentials): string =>
      secrets.seal(JSON.stringify(credentials), placeOf(connection)),

    open,

    /**
     * Seals by the first key what others have sealed, so that those can be taken out of the settings.
     * @returns how many are sealed anew, and how many nobody can open
     */
    async reseal(): Promise<{ resealed: number; unreadable: number }> {
      const counts = { resealed: 0, unreadable: 0 };
      for (let after: string = NIL; ; ) {
        const some = await repository.listSealedByOthers(secrets.sealingKeyId, after, RESEALED_AT_ONCE);
        for (const connection of some) {
          const isOpen = await open(connection).then(
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

export type ConnectionSecrets = ReturnType<typeof createConnectionSecrets>;
