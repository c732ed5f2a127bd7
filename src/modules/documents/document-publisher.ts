import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { createPublicationsRepository } from './publications.repository.ts';

const DOCUMENTS_AT_ONCE = 100;
/** Other sweeps wait for this one. */
const SWEEP_TURN_MS = 1_000;
/** Of who has changed something, which holds already: Postgres confirms every hit. */
const TIMEOUT_MS = 1_000;

export type PublisherDeps = {
  db: Knex;
  vectors: Pick<VectorStore, 'publish'>;
  logger: Pick<Logger, 'warn'>;
};

export type DocumentPublisher = ReturnType<typeof createDocumentPublisher>;

/** Tells the vector store who may read a document, and how it is looked for, once that has changed. */
export function createDocumentPublisher({ db, vectors, logger }: PublisherDeps) {
  const publications = createPublicationsRepository(db);

  /** One at a time for each document, so that the newest state is written last; who comes second leaves it. */
  async function publish(documentId: string): Promise<void> {
    const publication = await publications.lease(documentId);
    if (publication === undefined) return;
    await vectors.publish(publication);
    await publications.settle(publication);
  }

  return {
    /**
     * To be called after the commit of a change. Waits a moment at most and never throws: what does not succeed now is
     * done by the sweeper.
     */
    async publishNow(documentId: string): Promise<void> {
      const told = publish(documentId).catch((error: unknown) => {
        logger.warn({ err: error, documentId }, 'the vector store is told of a change later');
      });
      const patience = new AbortController();
      await Promise.race([told, delay(TIMEOUT_MS, undefined, { signal: patience.signal }).catch(() => undefined)]);
      patience.abort();
    },

    /** The changes that were not published at once. Throws the first failure, after those beside it had their turn. */
    async publishOutdated(): Promise<void> {
      const failures: unknown[] = [];
      const endMs = performance.now() + SWEEP_TURN_MS;
      for (;;) {
        const ids = await publications.listOutdated(DOCUMENTS_AT_ONCE);
        for (const id of ids) await publish(id).catch((error: unknown) => failures.push(error));
        if (failures.length > 0) throw failures[0];
        if (ids.length < DOCUMENTS_AT_ONCE || performance.now() > endMs) return;
      }
    },
  };
}
