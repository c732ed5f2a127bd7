import type { IngestionActivities } from '#activities/ingestion.ts';

type Name = keyof IngestionActivities;

/** Activities that succeed at once unless replaced, and the names of those that were called, in order. */
export function stubIngestion(replaced: Partial<IngestionActivities> = {}): {
  activities: IngestionActivities;
  calls: Name[];
} {
  const calls: Name[] = [];
  const recorded =
    <Input, Result>(name: Name, work: (input: Input) => Promise<Result>) =>
    (input: Input): Promise<Result> => {
      calls.push(name);
      return work(input);
    };
  const all: IngestionActivities = {
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
  };
  return {
    calls,
    activities: {
      ingestAtOnce: recorded('ingestAtOnce', all.ingestAtOnce),
      parseDocument: recorded('parseDocument', all.parseDocument),
      convertDocument: recorded('convertDocument', all.convertDocument),
      embedWindows: recorded('embedWindows', all.embedWindows),
      situateChunks: recorded('situateChunks', all.situateChunks),
      chunkDocument: recorded('chunkDocument', all.chunkDocument),
      embedChunks: recorded('embedChunks', all.embedChunks),
      activateGeneration: recorded('activateGeneration', all.activateGeneration),
      recordParked: recorded('recordParked', all.recordParked),
      recordResumed: recorded('recordResumed', all.recordResumed),
      recordFailure: recorded('recordFailure', all.recordFailure),
      recordCancellation: recorded('recordCancellation', all.recordCancellation),
    },
  };
}
