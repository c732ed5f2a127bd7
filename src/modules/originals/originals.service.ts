import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { v7 as uuidv7 } from 'uuid';
import type { StoredUpload } from '#src/contracts/request-data.ts';
import { originalBlobKey } from '#src/domain/documents/blob-keys.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import { createOriginalFilesRepository, type OriginalFileKey } from './originals.model.ts';

/**
 * Lifetime of the claim that keeps an uploaded file from deletion: enough to receive the rest of the form and to create
 * the document.
 */
const CLAIM_SECONDS = 3_600;
const KEYS_AT_ONCE = 100;
/**
 * Timeout of a blob deletion; far below the minute after which Postgres ends an idle transaction and releases its lock.
 */
const DELETE_TIMEOUT_MS = 15_000;
/** Maximum time that a request waits for a blob deletion; the sweeper completes slower ones. */
const RELEASE_TIMEOUT_MS = 2_000;

export type OriginalFilesService = ReturnType<typeof createOriginalFilesService>;

/**
 * Stores the original files of documents. Documents of an organization with the same content share one blob, which is
 * deleted when no row refers to it. An upload claims its blob until its document exists, so that deleting another
 * document with the same content meanwhile does not delete the blob.
 */
export function createOriginalFilesService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'stage' | 'promote' | 'unstage' | 'delete'>;
  logger: Pick<Logger, 'warn'>;
  /** Limits how many transactions hold a database connection while they wait for the blob store. */
  limit: <Result>(task: () => Promise<Result>) => Promise<Result>;
  deleteTimeoutMs?: number;
}) {
  const { db, blobs, logger, limit, deleteTimeoutMs = DELETE_TIMEOUT_MS } = deps;
  const originals = createOriginalFilesRepository(db);

  async function claim(of: OriginalFileKey): Promise<string> {
    const id = uuidv7();
    await db.transaction(async (trx) => {
      const claims = createOriginalFilesRepository(trx);
      await claims.lock(of.blobKey);
      await claims.insertClaim({ ...of, id, seconds: CLAIM_SECONDS });
    });
    return id;
  }

  async function scheduleRelease(trx: Knex, { orgId, blobKey }: OriginalFileKey): Promise<void> {
    await createOriginalFilesRepository(trx).insertClaim({ orgId, blobKey, id: uuidv7(), seconds: 0 });
  }

  /** Deletes a blob; rejects at the timeout even if the blob store ignores the signal. */
  async function deleteObject(blobKey: string): Promise<void> {
    const signal = AbortSignal.timeout(deleteTimeoutMs);
    const timeout = Promise.withResolvers<never>();
    signal.addEventListener('abort', () => timeout.reject(storeTimedOut()));
    await Promise.race([blobs.delete(blobKey, signal), timeout.promise]);
  }

  /** Deletes a blob that no row or claim needs, and its previews. Idempotent. */
  async function release({ orgId, blobKey }: OriginalFileKey): Promise<void> {
    const previews = await limit(() =>
      db.transaction(async (trx) => {
        const claims = createOriginalFilesRepository(trx);
        await claims.lock(blobKey);
        await claims.deleteExpired({ orgId, blobKey });
        if (await claims.isNeeded({ orgId, blobKey })) return [];
        const keys = await claims.deletePreviews({ orgId, blobKey });
        for (const key of keys) await scheduleRelease(trx, { orgId, blobKey: key });
        // Deletes the blob before the commit, so that a concurrent upload of the same content waits for the lock and
        // then stores the blob again.
        await deleteObject(blobKey);
        return keys;
      }),
    );
    for (const key of previews) await release({ orgId, blobKey: key });
  }

  /**
   * Deletes a blob that is no longer needed, waiting at most `RELEASE_TIMEOUT_MS`. Never throws: the sweeper tries
   * again.
   */
  async function attempt(blobKey: string, work: () => Promise<void>): Promise<void> {
    const done = work().catch((error: unknown) => {
      logger.warn(
        { err: error, blobKey },
        'a blob that is no longer needed could not be deleted; the sweeper tries again',
      );
    });
    const timer = new AbortController();
    await Promise.race([done, delay(RELEASE_TIMEOUT_MS, undefined, { signal: timer.signal }).catch(() => undefined)]);
    timer.abort();
  }

  return {
    /**
     * Streams a file into the blob store and claims its blob. Throws `payload_too_large` if it exceeds `limitBytes`.
     */
    async store(file: {
      orgId: string;
      content: AsyncIterable<Buffer>;
      limitBytes: number;
    }): Promise<Pick<StoredUpload, 'claimId' | 'blobKey' | 'sizeBytes' | 'sha256'>> {
      const { orgId, content, limitBytes } = file;
      const { stagingKey, ...measured } = await blobs.stage({ content, limitBytes });
      const blobKey = originalBlobKey(orgId, measured.sha256);
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

    /** Ends the claim of an upload; call it in the transaction that inserts the row which refers to the blob. */
    async settle(trx: Knex, { claimId }: Pick<StoredUpload, 'claimId'>): Promise<void> {
      if (await createOriginalFilesRepository(trx).deleteClaim(claimId)) return;
      throw appError('service_unavailable', {
        detail: 'The upload took longer than an hour. Upload the file again.',
        retryAfterSeconds: 1,
      });
    },

    /**
     * Schedules the deletion of a blob; call it in the transaction that removes a reference to it, and `releaseNow`
     * after the commit. The sweeper deletes the blob if the process crashes in between.
     */
    scheduleRelease,

    /** Locks an original until the end of the transaction. Returns false if no row or claim needs it any more. */
    async hold(trx: Knex, { orgId, blobKey }: OriginalFileKey): Promise<boolean> {
      const claims = createOriginalFilesRepository(trx);
      await claims.lock(blobKey);
      return claims.isNeeded({ orgId, blobKey });
    },

    release,

    /** Deletes a blob after the commit of `scheduleRelease`. Never throws; the sweeper retries a failed deletion. */
    releaseNow: (of: OriginalFileKey): Promise<void> => attempt(of.blobKey, () => release(of)),

    /** Expires the claim of an upload that failed, and deletes its blob if nothing else needs it. Never throws. */
    async discard({ claimId, blobKey }: Pick<StoredUpload, 'claimId' | 'blobKey'>): Promise<void> {
      await attempt(blobKey, async () => {
        const claimed = await originals.expireClaim(claimId);
        if (claimed !== undefined) await release(claimed);
      });
    },

    async sweepExpired(): Promise<void> {
      const failures: unknown[] = [];
      for (const expired of await originals.listExpired(KEYS_AT_ONCE)) {
        await release(expired).catch((error: unknown) => failures.push(error));
      }
      if (failures.length > 0) throw failures[0];
    },
  };
}

function storeTimedOut(): AppError {
  return appError('service_unavailable', { detail: 'The blob store did not answer in time.', retryAfterSeconds: 5 });
}
