import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { createDocumentsRepository } from './documents.repository.ts';

const SWEEP_BATCH_SIZE = 100;
/** Time limit for publishing documents in one sweep, so that the sweeper's other tasks are not delayed. */
const SWEEP_LIMIT_MS = 1_000;
/** Maximum wait for new access keys in the vector store: Postgres checks access to every search hit anyway. */
const PUBLISH_TIMEOUT_MS = 1_000;

export type DocumentPublisherDeps = {
  db: Knex;
  vectors: Pick<VectorStore, 'publish'>;
  logger: Pick<Logger, 'warn'>;
};

export function createDocumentPublisher({ db, vectors, logger }: DocumentPublisherDeps) {
  const documents = createDocumentsRepository(db);

  /**
   * Writes a document's access keys and retrieval settings to the vector store, under a lease, so that no concurrent
   * process overwrites them with an older state.
   */
  async function publish(documentId: string): Promise<void> {
    const publication = await documents.leasePublication(documentId);
    if (publication === undefined) return;
    await vectors.publish(publication);
    await documents.settlePublication(publication);
  }

  return {
    /**
     * Writes a document's access keys and retrieval settings to the vector store; call it after the commit. Never
     * throws: the sweeper retries after an error or `PUBLISH_TIMEOUT_MS`.
     */
    async publishNow(documentId: string): Promise<void> {
      const published = publish(documentId).catch((error: unknown) => {
        logger.warn({ err: error, documentId }, 'vector store publication failed; the sweeper retries it');
      });
      const timer = new AbortController();
      const timeout = delay(PUBLISH_TIMEOUT_MS, undefined, { signal: timer.signal }).catch(() => undefined);
      await Promise.race([published, timeout]);
      timer.abort();
    },

    async publishOutdated(): Promise<void> {
      const failures: unknown[] = [];
      const endMs = performance.now() + SWEEP_LIMIT_MS;
      for (;;) {
        const ids = await documents.listUnpublished(SWEEP_BATCH_SIZE);
        for (const id of ids) await publish(id).catch((error: unknown) => failures.push(error));
        if (failures.length > 0) throw failures[0];
        if (ids.length < SWEEP_BATCH_SIZE || performance.now() > endMs) return;
      }
    },
  };
}
