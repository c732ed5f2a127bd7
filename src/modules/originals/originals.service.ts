import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { v7 as uuidv7 } from 'uuid';
import type { StoredUpload } from '#src/contracts/request-data.ts';
import { originalKey } from '#src/domain/documents/blob-keys.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import { createOriginalsRepository, type OriginalKey } from './originals.repository.ts';

/** For the rest of a form behind its file, and for the transaction that makes a document of it. */
const CLAIM_SECONDS = 3_600;
const KEYS_AT_ONCE = 100;
/** Far below the minute after which Postgres ends a transaction that waits for us, and gives away its lock. */
const DELETE_TIMEOUT_MS = 15_000;
/** Of who has given an original up: the sweep makes up for what takes longer. */
const TIMEOUT_MS = 2_000;

export type OriginalsService = ReturnType<typeof createOriginalsService>;

/**
 * The stored files of documents. Documents of an organization that have the same content share one object: it is
 * deleted when no row needs it. A claim stands for the row of an upload until that is there, so that the end of one
 * document never takes the object away from under another that is just being made of the same content.
 */
export function createOriginalsService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'stage' | 'promote' | 'unstage' | 'delete'>;
  logger: Pick<Logger, 'warn'>;
  /** Bounds the connections that wait for the store. */
  limit: <Result>(task: () => Promise<Result>) => Promise<Result>;
  deleteTimeoutMs?: number;
}) {
  const { db, blobs, logger, limit, deleteTimeoutMs = DELETE_TIMEOUT_MS } = deps;
  const originals = createOriginalsRepository(db);

  async function claim(of: OriginalKey): Promise<string> {
    const id = uuidv7();
    await db.transaction(async (trx) => {
      const claims = createOriginalsRepository(trx);
      await claims.lock(of.blobKey);
      await claims.insertClaim({ ...of, id, seconds: CLAIM_SECONDS });
    });
    return id;
  }

  async function letGo(trx: Knex, { orgId, blobKey }: OriginalKey): Promise<void> {
    await createOriginalsRepository(trx).insertClaim({ orgId, blobKey, id: uuidv7(), seconds: 0 });
  }

  /** Gives up in time, whether or not the store listens. */
  async function deleteObject(blobKey: string): Promise<void> {
    const signal = AbortSignal.timeout(deleteTimeoutMs);
    const silence = Promise.withResolvers<never>();
    signal.addEventListener('abort', () => silence.reject(storeIsSilent()));
    await Promise.race([blobs.delete(blobKey, signal), silence.promise]);
  }

  /** Deletes the object unless something needs it, and then its preview. Deleting what is not there is fine. */
  async function release({ orgId, blobKey }: OriginalKey): Promise<void> {
    const previews = await limit(() =>
      db.transaction(async (trx) => {
        const claims = createOriginalsRepository(trx);
        await claims.lock(blobKey);
        await claims.deleteExpired({ orgId, blobKey });
        if (await claims.isNeeded({ orgId, blobKey })) return [];
        const keys = await claims.deletePreviews({ orgId, blobKey });
        for (const key of keys) await letGo(trx, { orgId, blobKey: key });
        // Before the commit: who claims the same content meanwhile waits, and then stores it anew.
        await deleteObject(blobKey);
        return keys;
      }),
    );
    for (const key of previews) await release({ orgId, blobKey: key });
  }

  /** Waits a moment at most. What does not succeed by then does when its claim has expired. */
  async function attempt(blobKey: string, work: () => Promise<void>): Promise<void> {
    const done = work().catch((error: unknown) => {
      logger.warn({ err: error, blobKey }, 'an original that may not be needed could not be looked at');
    });
    const patience = new AbortController();
    await Promise.race([done, delay(TIMEOUT_MS, undefined, { signal: patience.signal }).catch(() => undefined)]);
    patience.abort();
  }

  return {
    /** Streams a file into the store. Over `limitBytes` it throws `payload_too_large` and leaves nothing. */
    async store(file: {
      orgId: string;
      content: AsyncIterable<Buffer>;
      limitBytes: number;
    }): Promise<Pick<StoredUpload, 'claimId' | 'blobKey' | 'sizeBytes' | 'sha256'>> {
      const { orgId, content, limitBytes } = file;
      const { stagingKey, ...measured } = await blobs.stage({ content, limitBytes });
      const blobKey = originalKey(orgId, measured.sha256);
      let claimId: string | undefined;
      try {
        claimId = await claim({ orgId, blobKey });
        await blobs.promote(stagingKey, blobKey);
        return { claimId, blobKey, ...measured };
      } catch (error) {
        await attempt(blobKey, async () => {
          if (claimId !== undefined) await originals.expireClaim(claimId);
          await blobs.unstage(stagingKey);
        });
        throw error;
      }
    },

    /** In the transaction that refers to the original. */
    async settle(trx: Knex, { claimId }: Pick<StoredUpload, 'claimId'>): Promise<void> {
      if (await createOriginalsRepository(trx).deleteClaim(claimId)) return;
      throw appError('service_unavailable', { detail: 'The upload took too long.', retryAfterSeconds: 1 });
    },

    /** In the transaction that refers to it no longer; `releaseNow` after the commit. A crash between is made up for. */
    letGo,

    /** Until the end of the transaction nobody lets go of it. @returns false where that has been done */
    async hold(trx: Knex, { orgId, blobKey }: OriginalKey): Promise<boolean> {
      const claims = createOriginalsRepository(trx);
      await claims.lock(blobKey);
      return claims.isNeeded({ orgId, blobKey });
    },

    release,

    /** After `letGo`. Never throws or takes long: what does not succeed now is done by the sweep. */
    releaseNow: (of: OriginalKey): Promise<void> => attempt(of.blobKey, () => release(of)),

    /** Gives up what was stored, whatever has become of its transaction. Never throws or takes long. */
    async discard({ claimId, blobKey }: Pick<StoredUpload, 'claimId' | 'blobKey'>): Promise<void> {
      await attempt(blobKey, async () => {
        const claimed = await originals.expireClaim(claimId);
        if (claimed !== undefined) await release(claimed);
      });
    },

    /** What was let go, given up or forgotten. Throws the first failure, after those beside it had their turn. */
    async sweepExpired(): Promise<void> {
      const failures: unknown[] = [];
      for (const of of await originals.listExpired(KEYS_AT_ONCE)) {
        await release(of).catch((error: unknown) => failures.push(error));
      }
      if (failures.length > 0) throw failures[0];
    },
  };
}

function storeIsSilent(): AppError {
  return appError('service_unavailable', { detail: 'The store of the files does not answer.', retryAfterSeconds: 5 });
}
