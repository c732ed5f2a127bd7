import type { ExportActivities } from '#activities/exports.ts';

type Name = keyof ExportActivities;
type Call = { name: Name; input: unknown };

/** An organization of so many volumes of a hundred records, and what was called, in order. */
export function stubExports(
  volumes: number,
  replaced: Partial<ExportActivities> = {},
): { activities: ExportActivities; calls: Call[] } {
  const calls: Call[] = [];
  const made: ExportActivities = {
    countExport: async () => ({ total: volumes * 100 }),
    writeVolume: async ({ number }) => ({ records: 100, isMore: number < volumes }),
    publishExport: async () => undefined,
    recordExport: async () => undefined,
    recordParkedExport: async () => undefined,
    recordResumedExport: async () => undefined,
    recordExportFailure: async () => undefined,
    recordExportCancellation: async () => undefined,
    ...replaced,
  };
  const noted = <Input, Result>(name: Name, work: (input: Input) => Promise<Result>) => {
    return (input: Input): Promise<Result> => {
      calls.push({ name, input });
      return work(input);
    };
  };
  return {
    calls,
    activities: {
      countExport: noted('countExport', made.countExport),
      writeVolume: noted('writeVolume', made.writeVolume),
      publishExport: noted('publishExport', made.publishExport),
      recordExport: noted('recordExport', made.recordExport),
      recordParkedExport: noted('recordParkedExport', made.recordParkedExport),
      recordResumedExport: noted('recordResumedExport', made.recordResumedExport),
      recordExportFailure: noted('recordExportFailure', made.recordExportFailure),
      recordExportCancellation: noted('recordExportCancellation', made.recordExportCancellation),
    },
  };
}
