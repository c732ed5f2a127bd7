import type { Actor } from '#src/domain/access/visibility.ts';
import type { JobWatchService } from '#src/modules/jobs/job-watch.service.ts';
import type { FullDocument } from './documents.model.ts';
import type { DocumentsService } from './documents.service.ts';

export type IngestionWait = ReturnType<typeof createIngestionWait>;

/** Lets a request wait until the ingestion of a new document is over. */
export function createIngestionWait(deps: {
  documents: Pick<DocumentsService, 'find'>;
  jobWatch: Pick<JobWatchService, 'untilOver'>;
}) {
  const { documents, jobWatch } = deps;

  /**
   * Returns the document as it is when its ingestion is over or the wait ends. The end of the wait never stops the
   * ingestion. Does not wait without an ingestion, or if `waitSeconds` is null or 0.
   */
  return async (
    actor: Actor,
    document: FullDocument,
    { waitSeconds, signal }: { waitSeconds: number | null; signal: AbortSignal },
  ): Promise<FullDocument> => {
    if (!waitSeconds || document.jobId === null) return document;
    await jobWatch.untilOver(document.jobId, waitSeconds, signal);
    // A document that was deleted meanwhile is returned as it was made.
    return (await documents.find(actor, document.id)) ?? document;
  };
}
