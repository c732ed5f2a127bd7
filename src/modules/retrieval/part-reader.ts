import { validate as isUuid } from 'uuid';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { RetrievedChunk } from './retrieval.model.ts';
import type { RetrievalRepository } from './retrieval.repository.ts';

/** As much at once as a search gives, with chunks of the usual size. */
const chunksOfPart = 4;

/** Reads documents from their beginning, a part at a time. */
export function createPartReader(repository: Pick<RetrievalRepository, 'loadRun'>) {
  /**
   * @param part counts from 1; beyond the last one there are no chunks
   * @throws `document_not_found`, also for one that has no text that can be found
   */
  return async (
    actor: Actor,
    documentId: string,
    part: number,
  ): Promise<{ chunks: RetrievedChunk[]; parts: number }> => {
    const load = (first: number, limit: number) =>
      isUuid(documentId) ? repository.loadRun(actor, documentId, { first, limit }) : Promise.resolve([]);
    const run = await load((part - 1) * chunksOfPart, chunksOfPart);
    const [any] = run.length > 0 ? run : await load(0, 1);
    if (any === undefined) throw appError('document_not_found');
    return { chunks: run.map(({ chunkCount, ...chunk }) => chunk), parts: Math.ceil(any.chunkCount / chunksOfPart) };
  };
}
