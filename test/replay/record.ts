import { writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { Context } from '@temporalio/activity';
import type { WorkflowHandle, WorkflowStartOptions } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { withHeartbeats } from '#activities/heartbeats.ts';
import { scoreNewRoundsSignalName } from '#src/contracts/alignment.ts';
import { pauseUpdateName, resumeUpdateName } from '#src/contracts/ingestion.ts';
import { retryUpdateName, skipUpdateName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import {
  oneCall,
  stubAlignment,
  stubAnchoring,
  stubConnectors,
  stubDeletion,
  stubErasure,
  stubEvaluation,
  stubExports,
  stubIngestion,
  stubPreviews,
  stubReembedding,
  stubStoreAudit,
} from '#test/support/stub-activities.ts';
import { testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf } from '#test/support/workflow-run.ts';

/*
 * Records histories of the workflows over stub activities; run by hand with the services of the tests, and only for a
 * new path through a workflow: `node test/replay/record.ts <new name> …`. What is recorded stays: it stands for the runs that
 * are open when a version is deployed.
 */
const root = join(import.meta.dirname, '../..');

type Recording = Pick<WorkflowStartOptions, 'typedSearchAttributes'> & {
  workflow: string;
  args: unknown[];
  activities: object;
  /** What others do to the run. */
  meanwhile?: (run: WorkflowHandle) => Promise<void>;
};

const ingestion = {
  workflow: 'ingestDocument',
  args: [{ orgId: 'org', documentId: 'document', generation: 1 }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', DocumentId: 'document', JobKind: 'ingest' }),
};
const smallIngestion = {
  ...ingestion,
  args: [{ orgId: 'org', documentId: 'document', generation: 1, isSmall: true }],
};
const alignment = {
  workflow: 'scoreAlignment',
  args: [{ orgId: 'org', chatId: 'chat' }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', ChatId: 'chat', JobKind: 'alignment' }),
};
const anchoring = {
  workflow: 'proposeAnchorWords',
  args: [{ orgId: 'org', agentId: 'agent' }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', AgentId: 'agent', JobKind: 'anchors' }),
};
const previewing = {
  workflow: 'previewDocument',
  args: [{ orgId: 'org', documentId: 'document', generation: 1 }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', DocumentId: 'document', JobKind: 'preview' }),
};
const importing = {
  workflow: 'importFromConnector',
  args: [{ orgId: 'org', connectionId: 'connection', runId: 'run' }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', ConnectionId: 'connection', JobKind: 'import' }),
};
const importingFile = {
  ...importing,
  workflow: 'importFile',
  args: [{ orgId: 'org', connectionId: 'connection', runId: 'run', n: 1 }],
};
const deletion = {
  workflow: 'deleteDocument',
  args: [{ orgId: 'org', documentId: 'document' }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', DocumentId: 'document', JobKind: 'delete' }),
};
const reembedding = {
  workflow: 'reembedOrganization',
  args: [{ orgId: 'org', model: 'new-model' }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'reembed' }),
};
const erasure = {
  workflow: 'eraseContent',
  args: [{ orgId: 'org', userId: 'user', dueAt: '2026-01-01T00:00:00.000Z' }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'erase' }),
};
const exporting = {
  workflow: 'exportOrganization',
  args: [{ orgId: 'org', exportId: 'export' }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'export' }),
};
const evaluation = {
  workflow: 'evaluateVersion',
  args: [{ orgId: 'org', runId: 'evaluate-recorded' }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'evaluate' }),
};
const ofOneCase = {
  workflow: 'evaluateCase',
  args: [{ orgId: 'org', runId: 'evaluate-recorded', caseIndex: 0, hasReference: true, mode: 'pairwise' }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'compare' }),
};
const audit = {
  workflow: 'auditStores',
  args: [{ repair: true, graceSeconds: 3_600 }],
  typedSearchAttributes: searchAttributes({ JobKind: 'audit' }),
};

/** Embeds in two slices, and only once a person has seen to the first. */
function parkedIngestion(): typeof ingestion & Pick<Recording, 'activities'> {
  let calls = 0;
  const embedChunks = async () => {
    calls += 1;
    if (calls === 1) throw appError('model_not_configured');
    return { chunksEmbedded: calls, chunksLeft: 3 - calls };
  };
  return { ...ingestion, activities: stubIngestion({ embedChunks }).activities };
}

/** Another round comes, with its nudge, when the run was about to end. */
function nudgedAlignment(): typeof alignment & Pick<Recording, 'activities' | 'meanwhile'> {
  const ending = Promise.withResolvers<void>();
  const nudged = Promise.withResolvers<void>();
  const stub = stubAlignment(1, {
    recordAlignmentSuccess: async () => {
      ending.resolve();
      await nudged.promise;
    },
  });
  const meanwhile = async (run: WorkflowHandle) => {
    await ending.promise;
    stub.arrive();
    await run.signal(scoreNewRoundsSignalName);
    nudged.resolve();
  };
  return { ...alignment, activities: stub.activities, meanwhile };
}

/** A retry, or another round, nudges the run after it recorded its failure. */
function retriedAlignment(): typeof alignment & Pick<Recording, 'activities' | 'meanwhile'> {
  const failing = Promise.withResolvers<void>();
  const nudged = Promise.withResolvers<void>();
  let isBroken = true;
  const { activities } = stubAlignment(1, {
    scoreNextRound: async () => {
      if (isBroken) throw appError('chat_not_found');
      return { scored: false };
    },
    recordAlignmentFailure: async () => {
      failing.resolve();
      await nudged.promise;
    },
  });
  const meanwhile = async (run: WorkflowHandle) => {
    await failing.promise;
    isBroken = false;
    await run.signal(scoreNewRoundsSignalName);
    nudged.resolve();
  };
  return { ...alignment, activities, meanwhile };
}

/** A step that runs until it is cancelled. */
const untilCancelled = () => withHeartbeats(() => Context.current().cancelled);

/** Cancels the run once this step runs. */
const cancelDuring = (step: string) => async (run: WorkflowHandle) => {
  await until(`${step} runs`, async () => {
    const { pendingActivities } = (await run.describe()).raw;
    return pendingActivities?.some(
      ({ activityType, lastStartedTime }) => activityType?.name === step && lastStartedTime,
    );
  });
  await run.cancel();
};

/** Fails once with what a person has to mend. */
function parkedDeletion(): typeof deletion & Pick<Recording, 'activities' | 'meanwhile'> {
  let calls = 0;
  const deleteVectors = async () => {
    calls += 1;
    if (calls === 1) throw appError('model_not_configured');
  };
  const meanwhile = async (run: WorkflowHandle) => {
    await untilParked(run);
    await run.executeUpdate(retryUpdateName);
  };
  return { ...deletion, activities: stubDeletion({ deleteVectors }).activities, meanwhile };
}

/** The consent ends once, while files are under way. */
function parkedImport(): typeof importing & Pick<Recording, 'activities' | 'meanwhile'> {
  let calls = 0;
  const fetchFile = async () => {
    calls += 1;
    if (calls === 3) throw appError('needs_reauth');
    return { status: 'added', code: null } as const;
  };
  const meanwhile = async (run: WorkflowHandle) => {
    await until('it is parked', async () => (await attributeOf(run, 'ErrorCode')) !== undefined);
    await run.executeUpdate(retryUpdateName);
  };
  return { ...importing, activities: stubConnectors(10, { fetchFile }).activities, meanwhile };
}

/** So many that it goes on in a new history. */
function longListing(): typeof importing & Pick<Recording, 'activities'> {
  let left = 120;
  const listed = { total: 0, added: 0, updated: 0, unchanged: 0, deleted: 0, failed: 0 };
  const listFiles = async () => {
    left -= 1;
    return { counts: listed, isMore: left > 0 };
  };
  return { ...importing, activities: stubConnectors(2, { listFiles }).activities };
}

/** Fails once with what a person has to mend. */
function parkedAnchoring(): typeof anchoring & Pick<Recording, 'activities' | 'meanwhile'> {
  let calls = 0;
  const proposeWords = async () => {
    calls += 1;
    if (calls === 1) throw appError('model_not_configured');
    return { count: 40 };
  };
  const meanwhile = async (run: WorkflowHandle) => {
    await untilParked(run);
    await run.executeUpdate(retryUpdateName);
  };
  return { ...anchoring, activities: stubAnchoring({ proposeWords }).activities, meanwhile };
}

/** Fails once with what a person has to mend. */
function parkedPreview(): typeof previewing & Pick<Recording, 'activities' | 'meanwhile'> {
  let calls = 0;
  const renderPreview = async () => {
    calls += 1;
    if (calls === 1) throw appError('blob_store_refused');
    return { sizeBytes: 30_000, reused: false };
  };
  const meanwhile = async (run: WorkflowHandle) => {
    await untilParked(run);
    await run.executeUpdate(retryUpdateName);
  };
  return { ...previewing, activities: stubPreviews({ renderPreview }).activities, meanwhile };
}

/** Fails once with what a person has to mend. */
function parkedExport(): typeof exporting & Pick<Recording, 'activities' | 'meanwhile'> {
  let calls = 0;
  const writeVolume = async ({ number }: { number: number }) => {
    calls += 1;
    if (calls === 2) throw appError('blob_store_refused');
    return { records: 100, isMore: number < 2 };
  };
  const meanwhile = async (run: WorkflowHandle) => {
    await untilParked(run);
    await run.executeUpdate(retryUpdateName);
  };
  return { ...exporting, activities: stubExports(2, { writeVolume }).activities, meanwhile };
}

/** Fails once with what a person has to mend. */
function parkedErasure(): typeof erasure & Pick<Recording, 'activities' | 'meanwhile'> {
  let calls = 0;
  const eraseDocuments = async () => {
    calls += 1;
    if (calls === 1) throw appError('erasure_incomplete');
    return { erased: 1, isMore: false };
  };
  const meanwhile = async (run: WorkflowHandle) => {
    await untilParked(run);
    await run.executeUpdate(retryUpdateName);
  };
  return { ...erasure, activities: stubErasure(1, { eraseDocuments }).activities, meanwhile };
}

const untilParked = (run: WorkflowHandle) =>
  until('the run is parked', async () => (await attributeOf(run, 'ErrorCode')) !== undefined);

/** More slices than one history holds. */
function longIngestion(): typeof ingestion & Pick<Recording, 'activities'> {
  let chunksLeft = 60;
  const embedChunks = async () => {
    chunksLeft -= 1;
    return { chunksEmbedded: 60 - chunksLeft, chunksLeft };
  };
  return { ...ingestion, activities: stubIngestion({ embedChunks }).activities };
}

let situatedSlices = 0;
let timesMissed = 0;

const recordings: Record<string, Recording> = {
  'ingest-document-succeeded': { ...ingestion, activities: stubIngestion().activities },
  'ingest-document-failed': {
    ...ingestion,
    activities: stubIngestion({
      convertDocument: async () => {
        throw appError('encrypted_document');
      },
    }).activities,
  },
  'ingest-document-at-once': { ...smallIngestion, activities: stubIngestion().activities },
  'ingest-document-at-once-failed': {
    ...smallIngestion,
    activities: stubIngestion({
      ingestAtOnce: async () => {
        throw appError('model_unavailable');
      },
    }).activities,
  },
  'ingest-document-failed-recorded-first': {
    ...ingestion,
    activities: stubIngestion({
      convertDocument: async () => {
        throw appError('corrupt_document');
      },
    }).activities,
  },
  'ingest-document-parked-retried': {
    ...parkedIngestion(),
    meanwhile: async (run) => {
      await untilParked(run);
      await run.executeUpdate(retryUpdateName);
    },
  },
  'ingest-document-parked-skipped': {
    ...parkedIngestion(),
    meanwhile: async (run) => {
      await untilParked(run);
      await run.executeUpdate(skipUpdateName);
    },
  },
  'ingest-document-parked-cancelled': {
    ...parkedIngestion(),
    meanwhile: async (run) => {
      await untilParked(run);
      await run.cancel();
    },
  },
  'ingest-document-cancelled': {
    ...ingestion,
    activities: stubIngestion({ embedChunks: untilCancelled }).activities,
    meanwhile: cancelDuring('embedChunks'),
  },
  'ingest-document-situated': {
    ...ingestion,
    activities: stubIngestion({
      convertDocument: async () => ({ charCount: 12, pageCount: null, reused: false, needsContexts: true }),
      situateChunks: async () => {
        situatedSlices += 1;
        return { chunksSituated: situatedSlices, chunksLeft: 2 - situatedSlices };
      },
    }).activities,
  },
  'ingest-document-by-meaning': {
    ...ingestion,
    activities: stubIngestion({
      convertDocument: async () => ({ charCount: 12, pageCount: null, reused: false, needsWindows: true }),
    }).activities,
  },
  // Of a version that did not go on in new histories.
  'ingest-document-long': longIngestion(),
  'ingest-document-continued': longIngestion(),
  'ingest-document-no-progress': {
    ...ingestion,
    activities: stubIngestion({ embedChunks: async () => ({ chunksEmbedded: 0, chunksLeft: 3 }) }).activities,
  },
  'ingest-document-vectors-missing-twice': {
    ...ingestion,
    activities: stubIngestion({
      activateGeneration: async () => {
        timesMissed += 1;
        if (timesMissed <= 2) throw appError('vectors_missing');
      },
    }).activities,
  },
  'propose-anchor-words-succeeded': { ...anchoring, activities: stubAnchoring().activities },
  'propose-anchor-words-parked-retried': parkedAnchoring(),
  'propose-anchor-words-cancelled': {
    ...anchoring,
    activities: stubAnchoring({ proposeWords: untilCancelled }).activities,
    meanwhile: cancelDuring('proposeWords'),
  },
  'propose-anchor-words-failed': {
    ...anchoring,
    activities: stubAnchoring({
      proposeWords: async () => {
        throw appError('model_rejected');
      },
    }).activities,
  },
  'preview-document-succeeded': { ...previewing, activities: stubPreviews().activities },
  'preview-document-without-document': {
    ...previewing,
    activities: stubPreviews({ renderPreview: async () => null }).activities,
  },
  'preview-document-parked-retried': parkedPreview(),
  'preview-document-cancelled': {
    ...previewing,
    activities: stubPreviews({
      renderPreview: async () => {
        await untilCancelled();
        return null;
      },
    }).activities,
    meanwhile: cancelDuring('renderPreview'),
  },
  'preview-document-failed': {
    ...previewing,
    activities: stubPreviews({
      renderPreview: async () => {
        throw appError('corrupt_document');
      },
    }).activities,
  },
  'export-organization-succeeded': { ...exporting, activities: stubExports(2).activities },
  'export-organization-continued': { ...exporting, activities: stubExports(80).activities },
  'export-organization-parked-retried': parkedExport(),
  'export-organization-cancelled': {
    ...exporting,
    activities: stubExports(2, {
      writeVolume: async () => {
        await untilCancelled();
        return { records: 0, isMore: false };
      },
    }).activities,
    meanwhile: cancelDuring('writeVolume'),
  },
  'export-organization-failed': {
    ...exporting,
    activities: stubExports(2, {
      writeVolume: async () => {
        throw appError('export_not_found');
      },
    }).activities,
  },
  'import-from-connector-succeeded': { ...importing, activities: stubConnectors(10).activities },
  'import-from-connector-parked-retried': parkedImport(),
  'import-from-connector-continued': longListing(),
  'import-from-connector-failed': {
    ...importing,
    activities: stubConnectors(2, {
      beginImport: async () => {
        throw appError('account_disabled');
      },
    }).activities,
  },
  'import-from-connector-cancelled': {
    ...importing,
    activities: stubConnectors(10, {
      fetchFile: async () => {
        await untilCancelled();
        return { status: 'added', code: null };
      },
    }).activities,
    meanwhile: async (run) => {
      await until('files are fetched', async () => (await run.describe()).raw.pendingChildren?.length === 8);
      await run.cancel();
    },
  },
  'import-file-succeeded': { ...importingFile, activities: stubConnectors(1).activities },
  'import-file-failed': {
    ...importingFile,
    activities: stubConnectors(1, {
      fetchFile: async () => {
        throw appError('needs_reauth');
      },
    }).activities,
  },
  'sync-connection-succeeded': { ...importing, workflow: 'syncConnection', activities: stubConnectors(3).activities },
  'queue-sync-succeeded': {
    ...importing,
    workflow: 'queueSync',
    args: [{ orgId: 'org', connectionId: 'connection' }],
    activities: stubConnectors(0).activities,
  },
  'delete-document-succeeded': { ...deletion, activities: stubDeletion().activities },
  'delete-document-failed': {
    ...deletion,
    activities: stubDeletion({
      deleteOriginal: async () => {
        throw appError('blob_missing');
      },
    }).activities,
  },
  'delete-document-parked-retried': parkedDeletion(),
  'erase-content-waited': {
    ...erasure,
    args: [{ orgId: 'org', userId: null, dueAt: new Date(Date.now() + 5_000).toISOString() }],
    activities: stubErasure(2).activities,
  },
  'erase-content-continued': { ...erasure, activities: stubErasure(60).activities },
  'erase-content-parked-retried': parkedErasure(),
  'erase-content-failed': {
    ...erasure,
    activities: stubErasure(1, {
      forgetLeaver: async () => {
        throw appError('blob_missing');
      },
    }).activities,
  },
  'evaluate-version-succeeded': { ...evaluation, activities: stubEvaluation({ rubric: 'anchored' }).activities },
  'evaluate-version-failed': {
    ...evaluation,
    activities: stubEvaluation(
      {},
      {
        scoreEvaluation: async () => {
          throw appError('eval_incomplete');
        },
      },
    ).activities,
  },
  'evaluate-version-cancelled': {
    ...evaluation,
    activities: stubEvaluation({}, { judgeUnit: untilCancelled }).activities,
    meanwhile: cancelDuring('judgeUnit'),
  },
  'compare-versions-succeeded': {
    ...evaluation,
    workflow: 'compareVersions',
    activities: stubEvaluation({ cases: [true] }).activities,
  },
  'evaluate-case-compared': { ...ofOneCase, activities: stubEvaluation().activities },
  'evaluate-case-unanswered': {
    ...ofOneCase,
    activities: stubEvaluation(
      {},
      { answerCase: async () => ({ ...oneCall, failed: [{ unit: 'case 1 answer', code: 'model_rejected' }] }) },
    ).activities,
  },
  'audit-stores-cancelled': {
    ...audit,
    activities: stubStoreAudit(1, { auditPage: untilCancelled }).activities,
    meanwhile: cancelDuring('auditPage'),
  },
  'audit-stores-succeeded': { ...audit, activities: stubStoreAudit(3).activities },
  'reembed-organization-succeeded': { ...reembedding, activities: stubReembedding(30).activities },
  'reembed-organization-paused': {
    ...reembedding,
    activities: stubReembedding(30).activities,
    meanwhile: async (run) => {
      await run.executeUpdate(pauseUpdateName);
      await run.executeUpdate(resumeUpdateName);
    },
  },
  'score-alignment-succeeded': { ...alignment, activities: stubAlignment(3).activities },
  'score-alignment-named-beside': { ...alignment, activities: stubAlignment(3).activities },
  'score-alignment-nudged': nudgedAlignment(),
  'score-alignment-failed-nudged': retriedAlignment(),
  'score-alignment-cancelled': {
    ...alignment,
    activities: stubAlignment(1, { scoreNextRound: untilCancelled }).activities,
    meanwhile: cancelDuring('scoreNextRound'),
  },
  'score-alignment-title-timed-out': {
    ...alignment,
    // Without a beat, three times.
    activities: stubAlignment(1, { nameChat: () => Context.current().cancelled }).activities,
  },
  'score-alignment-failed': {
    ...alignment,
    activities: stubAlignment(1, {
      scoreNextRound: async () => {
        throw appError('chat_not_found');
      },
    }).activities,
  },
};

async function record(name: string, { workflow, activities, meanwhile, ...start }: Recording): Promise<void> {
  const temporal = await testWorkers();
  await temporal.withWorker(activities, async (taskQueue) => {
    const run = await temporal.client.workflow.start(workflow, { ...start, workflowId: name, taskQueue });
    await meanwhile?.(run);
    await run.result().catch(() => undefined);
    let runId: string | null | undefined = run.firstExecutionRunId;
    for (let part = 1; runId; part += 1) {
      const history = await temporal.client.workflow.getHandle(name, runId).fetchHistory();
      const file = `${name}${part === 1 ? '' : `-${part}`}.json`;
      const path = join(import.meta.dirname, 'histories', file);
      // One that is kept is never recorded again.
      await writeFile(path, withoutMachine(historyToJSON(history)), { flag: 'wx' });
      runId = history.events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId;
    }
  });
  await temporal.close();
}

/** Where it was recorded is nobody's business. */
function withoutMachine(history: string): string {
  return history.replaceAll(root, '').replaceAll(`${process.pid}@${hostname()}`, 'worker');
}

const names = process.argv.slice(2);
const unknown = names.filter((name) => !Object.hasOwn(recordings, name));
if (names.length === 0 || unknown.length > 0) {
  throw new Error(`There is no recording ${unknown.join(', ')}. There are: ${Object.keys(recordings).join(', ')}`);
}
for (const [name, recording] of Object.entries(recordings)) {
  if (names.includes(name)) await record(name, recording);
}
