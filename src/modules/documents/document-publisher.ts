import type { Logger } from 'pino';
import type { Db } from '#src/ports/database.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { createPublicationsRepository } from './publications.repository.ts';

/** A fraction of a second: other sweeps wait for it. */
const DOCUMENTS_PER_SWEEP = 100;

export type PublisherDeps = {
  db: Db;
  vectors: Pick<VectorStore, 'publish'>;
  logger: Pick<Logger, 'warn'>;
};

export type DocumentPublisher = ReturnType<typeof createDocumentPublisher>;

/** Tells the vector store who may read a document, and how it is looked for, once that has changed. */
export function createDocumentPublisher({ db, vectors, logger }: PublisherDeps) {
  /** One at a time for each document, so that the newest state is written last; who comes second leaves it. */
  async function publish(documentId: string): Promise<void> {
    await db.transaction(async (trx) => {
      const publications = createPublicationsRepository(trx);
      const outdated = await publications.holdOutdated(documentId);
      if (outdated === undefined) return;
      const { outdatedAt, ...generation } = outdated;
      await vectors.publish(generation);
      await publications.clear(documentId, outdatedAt);
    });
  }

  return {
    /** To be called after the commit of a change. Never throws: what does not succeed now is done by the sweeper. */
    async publishNow(documentId: string): Promise<void> {
      await publish(documentId).catch((error: unknown) => {
        logger.warn({ err: error, documentId }, 'the vector store is told of a change later');
      });
    },

    /** The changes that were not published at once, oldest first. Throws when the store is down. */
    async publishOutdated(): Promise<void> {
      const ids = await createPublicationsRepository(db).listOutdated(DOCUMENTS_PER_SWEEP);
      for (const id of ids) await publish(id);
    },
  };
}
