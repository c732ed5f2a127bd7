import type { BlobStore } from '#src/ports/blob-store.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import type { GenerationRange } from './ingestion.model.ts';
import type { IngestionRepository } from './ingestion.repository.ts';

/** Takes generations away from every store. */
export function createGenerationCollector(deps: {
  blobs: Pick<BlobStore, 'delete'>;
  vectors: Pick<VectorStore, 'deleteGenerations'>;
  repository: Pick<IngestionRepository, 'listBlobKeys' | 'deleteGenerations' | 'listUnneeded'>;
}) {
  const { blobs, vectors, repository } = deps;

  /** Rows last: they say that there is something to collect. */
  async function collect(range: GenerationRange): Promise<void> {
    await vectors.deleteGenerations(range);
    for (const blobKey of await repository.listBlobKeys(range)) await blobs.delete(blobKey);
    await repository.deleteGenerations(range);
  }

  return {
    collect,

    /** Those of the document that are neither what readers see nor the newest. */
    async collectUnneeded({ orgId, documentId }: { orgId: string; documentId: string }): Promise<void> {
      for (const from of await repository.listUnneeded({ orgId, documentId })) {
        await collect({ orgId, documentId, from, before: from + 1 });
      }
    },
  };
}
