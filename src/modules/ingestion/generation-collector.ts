import type { OriginalsService } from '#src/modules/originals/originals.service.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import type { DocumentKey, GenerationRange } from './ingestion.model.ts';
import type { IngestionRepository } from './ingestion.repository.ts';

/** Takes generations away from every store. */
export function createGenerationCollector(deps: {
  originals: Pick<OriginalsService, 'release'>;
  vectors: Pick<VectorStore, 'deleteGenerations'>;
  repository: Pick<IngestionRepository, 'listBlobKeys' | 'deleteGenerations' | 'listUnneeded'>;
}) {
  const { originals, vectors, repository } = deps;

  /** Rows last: they say that there is something to collect. */
  async function collect(range: GenerationRange, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    await vectors.deleteGenerations(range);
    for (const blobKey of await repository.listBlobKeys(range)) {
      signal.throwIfAborted();
      await originals.release({ orgId: range.orgId, blobKey });
    }
    await repository.deleteGenerations(range, signal);
  }

  return {
    collect,

    /** Those of the document that are neither what readers see nor the newest. */
    async collectUnneeded({ orgId, documentId }: DocumentKey, signal: AbortSignal): Promise<void> {
      for (const from of await repository.listUnneeded({ orgId, documentId })) {
        await collect({ orgId, documentId, from, before: from + 1 }, signal);
      }
    },
  };
}
