import type { ConnectorActivities } from '#activities/connectors.ts';
import type { ImportCounts, ImportFileResult } from '#src/contracts/connectors.ts';

type Name = keyof ConnectorActivities;

/** A connection with so many files, all of which are new and can be had; what was fetched once is not pending. */
export function stubConnectors(
  total: number,
  replaced: Partial<ConnectorActivities> = {},
): { activities: ConnectorActivities; calls: { name: Name; input: unknown }[] } {
  const calls: { name: Name; input: unknown }[] = [];
  const ended = new Map<number, ImportFileResult>();
  const counts = (): ImportCounts => {
    const results = [...ended.values()];
    const of = (status: ImportFileResult['status']) => results.filter((result) => result.status === status).length;
    const [added, updated, unchanged, failed] = [of('added'), of('updated'), of('unchanged'), of('failed')];
    return { total, added, updated, unchanged, deleted: 0, failed };
  };
  const all: ConnectorActivities = {
    queueSyncOfConnection: async ({ connectionId }) => ({ jobId: `sync-${connectionId}`, reason: 'it is time.' }),
    beginImport: async () => undefined,
    listFiles: async () => ({ counts: counts(), isMore: false }),
    pendingFiles: async () => {
      const numbers = Array.from({ length: total }, (_, index) => index + 1).filter((n) => !ended.has(n));
      return { numbers: numbers.slice(0, 500), counts: counts() };
    },
    fetchFile: async () => ({ status: 'added', code: null }),
    deleteMissing: async () => ({ counts: counts(), isMore: false, mustListAgain: false }),
    finishImport: async () => counts(),
    recordFileFailure: async ({ n, error }) => {
      ended.set(n, { status: 'failed', code: error.code });
    },
    recordImportParked: async () => undefined,
    recordImportResumed: async () => undefined,
    recordImportFailure: async () => undefined,
    recordImportCancellation: async () => undefined,
    ...replaced,
  };
  const recorded = <Input, Result>(name: Name, work: (input: Input) => Promise<Result>) => {
    return (input: Input): Promise<Result> => {
      calls.push({ name, input });
      return work(input);
    };
  };
  const activities: ConnectorActivities = {
    queueSyncOfConnection: recorded('queueSyncOfConnection', all.queueSyncOfConnection),
    beginImport: recorded('beginImport', all.beginImport),
    listFiles: recorded('listFiles', all.listFiles),
    pendingFiles: recorded('pendingFiles', all.pendingFiles),
    fetchFile: recorded('fetchFile', async (input) => {
      const result = await all.fetchFile(input);
      ended.set(input.n, result);
      return result;
    }),
    deleteMissing: recorded('deleteMissing', all.deleteMissing),
    finishImport: recorded('finishImport', all.finishImport),
    recordFileFailure: recorded('recordFileFailure', all.recordFileFailure),
    recordImportParked: recorded('recordImportParked', all.recordImportParked),
    recordImportResumed: recorded('recordImportResumed', all.recordImportResumed),
    recordImportFailure: recorded('recordImportFailure', all.recordImportFailure),
    recordImportCancellation: recorded('recordImportCancellation', all.recordImportCancellation),
  };
  return { activities, calls };
}
