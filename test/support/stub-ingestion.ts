import type { IngestionActivities } from '#activities/ingestion.ts';
import { recordCalls } from './stub-calls.ts';

/** Stub activities that succeed at once unless replaced. Records the names of called activities in order. */
export function stubIngestion(replaced: Partial<IngestionActivities> = {}) {
  const { activities, names, untilCalled } = recordCalls<IngestionActivities>({
    ingestAtOnce: async () => ({
      converted: { charCount: 12, pageCount: null, reused: false },
      chunksTotal: 3,
      isDone: true,
    }),
    parseDocument: async () => ({ sourceFormat: 'text', sizeBytes: 12 }),
    convertDocument: async () => ({ charCount: 12, pageCount: null, reused: false }),
    embedWindows: async () => ({ windowsEmbedded: 12, windowsLeft: 0 }),
    situateChunks: async () => ({ chunksSituated: 3, chunksLeft: 0 }),
    chunkDocument: async () => ({ chunksTotal: 3 }),
    embedChunks: async () => ({ chunksEmbedded: 3 }),
    activateGeneration: async () => undefined,
    recordParked: async () => undefined,
    recordResumed: async () => undefined,
    recordFailure: async () => undefined,
    recordCancellation: async () => undefined,
    ...replaced,
  });
  return { activities, calls: names, untilCalled };
}
