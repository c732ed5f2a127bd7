import type { Readable } from 'node:stream';
import type { Knex } from 'knex';
import type { StoredUpload } from '#src/contracts/request-data.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { OriginalFilesService } from '#src/modules/originals/originals.service.ts';
import { createDocumentsRepository } from './documents.repository.ts';

/**
 * Lifetime of a storage reservation: that of the claim which keeps the uploaded file from deletion. After it, no
 * document can use the file.
 */
const UNSETTLED_MS = 3_600_000;
const RETRY_AFTER_SECONDS = 5;
/** Multiple of the quota that an organization may occupy, because deleted documents' files take time to remove. */
const DISK_QUOTAS = 2;

/** The part of the storage quota that an upload reserves from its start until its document is counted. */
type Reservation = {
  bytes: number;
  addedMeanwhile: number;
};

type FileUpload = {
  fileName: string;
  mediaType: string;
  content: Readable;
  announcedBytes?: number;
  /**
   * The document whose original this upload replaces; the size of the old original does not count against the quota.
   */
  replaces?: string | undefined;
};

export type UploadsService = ReturnType<typeof createUploadsService>;

/**
 * Stores an uploaded file before its document exists, because other form fields may come after the file. An upload
 * reserves its size in the storage quota before it is written. Reservations are kept in the memory of the process, so a
 * crash leaves none behind. The transaction that creates the document checks the quota again under the organization's
 * lock, because each process knows only its own reservations.
 */
export function createUploadsService(deps: {
  db: Knex;
  originals: Pick<OriginalFilesService, 'store' | 'settle' | 'discard'>;
  limits: Pick<TierLimitsService, 'of'>;
}) {
  const { originals, limits } = deps;
  const documents = createDocumentsRepository(deps.db);
  const reservations = new Map<string, Set<Reservation>>();
  const unsettled = new Map<string, (end: 'settled' | 'discarded') => void>();

  function openReservation(orgId: string, own: Reservation) {
    const ofOrg = reservations.get(orgId) ?? new Set();
    reservations.set(orgId, ofOrg.add(own));
    return {
      others: () => [...ofOrg].filter((other) => other !== own),
      release: () => {
        ofOrg.delete(own);
        if (ofOrg.size === 0 && reservations.get(orgId) === ofOrg) reservations.delete(orgId);
      },
    };
  }

  async function sizeOf(actor: Actor, documentId: string | undefined): Promise<number> {
    if (documentId === undefined) return 0;
    return (await documents.findRow(actor, documentId))?.sizeBytes ?? 0;
  }

  return {
    /**
     * Streams a file into the blob store, up to the size that the organization's tier allows. Throws
     * `payload_too_large`, `storage_quota_exceeded`, and `rate_limited` if the file will fit after other uploads end or
     * deleted files are removed.
     */
    async store(actor: Actor, upload: FileUpload): Promise<StoredUpload> {
      const { orgId } = actor;
      const { fileName, mediaType, content, announcedBytes = 0, replaces } = upload;
      const { fileSizeBytes, storageBytes } = await limits.of(orgId);
      if (announcedBytes > fileSizeBytes) {
        throw appError('payload_too_large', { detail: `The file is larger than the limit of ${fileSizeBytes} bytes.` });
      }
      const replacedBytes = await sizeOf(actor, replaces);
      const { usedBytes, deletedBytes } = await documents.stored(orgId);
      const freeBytes = storageBytes - usedBytes + replacedBytes;
      const freeDiskBytes = DISK_QUOTAS * storageBytes - usedBytes - deletedBytes;
      const own: Reservation = { bytes: 0, addedMeanwhile: 0 };
      const { others, release } = openReservation(orgId, own);

      function reserve(bytes: number): void {
        if (bytes <= own.bytes) return;
        if (bytes > freeBytes) {
          throw appError('storage_quota_exceeded', {
            detail: `The file does not fit: the organization's tier allows ${storageBytes} bytes of documents.`,
          });
        }
        const taken = others().reduce((sum, other) => sum + other.bytes, own.addedMeanwhile);
        if (bytes > Math.min(freeBytes, freeDiskBytes) - taken) {
          const detail =
            'Other uploads, or deleted files that are still being removed, take the rest of the storage. Try again later.';
          throw appError('rate_limited', { detail, retryAfterSeconds: RETRY_AFTER_SECONDS });
        }
        own.bytes = bytes;
      }
      async function* reserving(): AsyncGenerator<Buffer> {
        let bytes = 0;
        for await (const piece of content as AsyncIterable<Buffer>) {
          bytes += piece.length;
          reserve(Math.min(bytes, fileSizeBytes));
          yield piece;
        }
      }

      try {
        reserve(announcedBytes);
        const stored = await originals.store({ orgId, content: reserving(), limitBytes: fileSizeBytes });
        const expiry = setTimeout(() => unsettled.get(stored.claimId)?.('discarded'), UNSETTLED_MS).unref();
        unsettled.set(stored.claimId, (end) => {
          clearTimeout(expiry);
          unsettled.delete(stored.claimId);
          release();
          if (end === 'discarded') return;
          for (const other of others()) other.addedMeanwhile += stored.sizeBytes - replacedBytes;
        });
        return { fileName, mediaType, ...stored };
      } catch (error) {
        release();
        throw error;
      }
    },

    /**
     * Ends the claim on an uploaded file, which now belongs to a document; call it in the transaction that creates the
     * document, after the quota check.
     */
    async settle(trx: Knex, file: StoredUpload): Promise<void> {
      await originals.settle(trx, file);
      unsettled.get(file.claimId)?.('settled');
    },

    async discard(file: StoredUpload): Promise<void> {
      await originals.discard(file);
      unsettled.get(file.claimId)?.('discarded');
    },
  };
}
