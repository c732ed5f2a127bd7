import type { Readable } from 'node:stream';
import type { StoredUpload } from '#src/contracts/uploads.ts';
import type { Actor } from '#src/domain/visibility.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { OriginalsService } from '#src/modules/originals/originals.service.ts';

export type UploadsService = ReturnType<typeof createUploadsService>;

/** Files that are stored before it is known what becomes of them: the fields of a form may come after its file. */
export function createUploadsService(deps: {
  originals: Pick<OriginalsService, 'store' | 'discard'>;
  limits: Pick<TierLimitsService, 'of'>;
}) {
  const { originals, limits } = deps;

  return {
    /** Streams a file into the store, up to the size that the organization's tier allows. Throws `payload_too_large`. */
    async store(
      { orgId }: Actor,
      { fileName, mediaType, content }: { fileName: string; mediaType: string; content: Readable },
    ): Promise<StoredUpload> {
      const { fileSizeBytes } = await limits.of(orgId);
      const stored = await originals.store({ orgId, content, limitBytes: fileSizeBytes });
      return { fileName, mediaType, ...stored };
    },

    /** A document that was made of the file keeps it. Never throws. */
    discard: (file: StoredUpload): Promise<void> => originals.discard(file),
  };
}
