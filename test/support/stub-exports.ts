import type { ExportActivities } from '#activities/exports.ts';
import { recordCalls } from './stub-calls.ts';

/** Stub activities for an export of the given number of volumes, with 100 records each. Records the calls in order. */
export function stubExports(volumes: number, replaced: Partial<ExportActivities> = {}) {
  return recordCalls<ExportActivities>({
    countExport: async () => ({ total: volumes * 100 }),
    writeVolume: async ({ number }) => ({ records: 100, isMore: number < volumes }),
    publishExport: async () => undefined,
    recordExport: async () => undefined,
    recordParkedExport: async () => undefined,
    recordResumedExport: async () => undefined,
    recordExportFailure: async () => undefined,
    recordExportCancellation: async () => undefined,
    ...replaced,
  });
}
