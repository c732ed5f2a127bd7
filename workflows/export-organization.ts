import {
  allHandlersFinished,
  condition,
  continueAsNew,
  defineQuery,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { ExportActivities } from '#activities/exports.ts';
import type {
  ExportOrganizationInput,
  ExportOrganizationResult,
  ExportProgress,
  ExportStage,
} from '#src/contracts/exports.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { readJobAttemptOfRun, recordUnsuccessfulRunEnd } from './failure.ts';
import { createParkableStepRunner } from './parking.ts';
import { fileTransferPolicy, jobUpdatePolicy, quickActivityPolicy } from './policies.ts';
import { showRunStage } from './visibility.ts';

const { countExport, publishExport } = proxyActivities<ExportActivities>(quickActivityPolicy);
const { writeVolume } = proxyActivities<ExportActivities>(fileTransferPolicy);
const { recordExport, recordParkedExport, recordResumedExport, recordExportFailure, recordExportCancellation } =
  proxyActivities<ExportActivities>(jobUpdatePolicy);

const stageQuery = defineQuery<ExportProgress>(stageQueryName);

/** Continues as new after this many events, so that a history stays readable. */
const eventsPerRun = 300;

/** Exports an organization, one volume per activity, so that a failed activity repeats one volume only. */
export async function exportOrganization(input: ExportOrganizationInput): Promise<ExportOrganizationResult> {
  const of = { orgId: input.orgId, exportId: input.exportId };
  const progress: ExportProgress = input.progress ?? { stage: 'queued', volumes: 0, records: 0, total: 0 };
  setHandler(stageQuery, () => progress);

  const orPark = createParkableStepRunner({
    parked: (error) => recordParkedExport({ ...of, error }),
    resumed: () => recordResumedExport(of),
  });

  function enter(stage: ExportStage, details: string): void {
    progress.stage = stage;
    showRunStage(stage, details);
  }

  async function writeNext(): Promise<boolean> {
    const { volumes, records, total } = progress;
    enter('write', `Writing volume ${volumes + 1}; ${records} of about ${total} records are stored.`);
    const volume = await orPark(() => writeVolume({ ...of, number: volumes + 1, done: records, total }));
    progress.volumes += 1;
    progress.records += volume.records;
    return volume.isMore;
  }

  try {
    if (input.progress === undefined) {
      enter('count', 'Counting the records.');
      progress.total = (await orPark(() => countExport(of))).total;
    }
    while (await writeNext()) {
      if (workflowInfo().historyLength > eventsPerRun) {
        await condition(allHandlersFinished);
        await continueAsNew<typeof exportOrganization>({ ...of, progress });
      }
    }
    const { volumes, records } = progress;
    enter('publish', `${volumes} volumes with ${records} records are stored.`);
    await orPark(() => publishExport({ ...of, records }));
    await condition(allHandlersFinished);
    await recordExport({ ...of, ...readJobAttemptOfRun() });
    progress.stage = 'done';
    showRunStage('done', `Done: ${records} records in ${volumes} volumes.`);
    return { volumes, records };
  } catch (error) {
    throw await recordUnsuccessfulRunEnd(error, {
      cancelled: () => recordExportCancellation({ ...of, ...readJobAttemptOfRun() }),
      failed: (failure) => recordExportFailure({ ...of, ...readJobAttemptOfRun(), error: failure }),
    });
  }
}
