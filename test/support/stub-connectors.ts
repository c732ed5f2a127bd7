import type { ConnectorActivities } from '#activities/connectors.ts';
import type { ImportCounts, ImportFileResult } from '#src/contracts/connectors.ts';
import { recordCalls } from './stub-calls.ts';

/** Stub activities for a connection with the given number of new files; a file is pending until it is fetched or has failed. */
export function stubConnectors(total: number, replaced: Partial<ConnectorActivities> = {}) {
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
  return recordCalls<ConnectorActivities>({
    ...all,
    fetchFile: async (input) => {
      const result = await all.fetchFile(input);
      ended.set(input.n, result);
      return result;
    },
  });
}
