import { join } from 'node:path';
import { expect } from 'chai';
import { createAlignmentActivities } from '#activities/alignment.ts';
import { createAnchorWordActivities } from '#activities/anchoring.ts';
import { createConnectorActivities } from '#activities/connectors.ts';
import { createDeletionActivities } from '#activities/deletion.ts';
import { createErasureActivities } from '#activities/erasure.ts';
import { createEvaluationActivities } from '#activities/evaluation.ts';
import { createExportActivities } from '#activities/exports.ts';
import { createIngestionActivities } from '#activities/ingestion.ts';
import { createPreviewActivities } from '#activities/previews.ts';
import {
  anchorWordsWorkflowId,
  deletionWorkflowId,
  erasureWorkflowId,
  previewWorkflowId,
} from '#src/contracts/workflow-ids.ts';
import { taskQueues } from '#src/contracts/workflow-runs.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { cancelScoring, failScoring, scoreChat } from './alignment-scenarios.ts';
import { aColleague, aPublishedAgent } from './builders.ts';
import {
  cancelImport,
  failImport,
  importBucket,
  parkImport,
  queueByTime,
  syncBucket,
  terminateFile,
} from './connector-scenarios.ts';
import { docxFile, docxParagraph } from './document-fixtures.ts';
import { cancelEvaluation, evaluateGolden, failEvaluation } from './evaluation-scenarios.ts';
import { cancelExport, exportOnce, failExport, parkExport } from './export-scenarios.ts';
import { type FaultCase, type Scenario, uploadText } from './fault-case.ts';
import { isFullRun, wantedSteps } from './fault-run.ts';
import { wordVector } from './retrieval-fixture.ts';
import { embeddedTexts } from './scripted-model.ts';
import { answerEmbeddings } from './scripted-server.ts';
import { runSeed, seeded } from './seeded.ts';
import { until } from './until.ts';
import { type JobView, untilJob } from './until-job.ts';

export const CASE_TIMEOUT_MS = 240_000;

/** A document of some hundred chunks, which take several calls of the model; another one for each seed. */
const random = seeded(runSeed);
const words = ['fee', 'notice', 'period', 'contract', 'month', 'invoice', 'office', 'storey'] as const;
const content = Array.from(
  { length: 180 },
  (_, index) => `Sentence ${index} speaks of a ${random.pick(words)} and a ${random.pick(words)}.`,
).join(' ');
const chunking = { target_tokens: '14', overlap_tokens: '0' };

export const uploadLongText = ({ member }: FaultCase) => uploadText(member, content, chunking);

const jobOf = async ({ member }: FaultCase, jobId: string) => (await member.get(`/jobs/${jobId}`, 200)).body as JobView;

const untilEnd = ({ member }: FaultCase, jobId: string, status: string) => untilJob(member, jobId, status);

/** Presses "retry" whenever the job waits for it; a worker may die of this very call. */
async function retryUntilDone(own: FaultCase, jobId: string): Promise<void> {
  const retry = async () => {
    const { status } = await jobOf(own, jobId);
    if (['parked', 'failed'].includes(status)) await own.member.raw(`/jobs/${jobId}/retry`, { method: 'POST' });
    return status === 'succeeded';
  };
  await until('it succeeds at last', retry);
}

async function uploadAndDelete(own: FaultCase): Promise<string> {
  const { documentId, jobId } = await uploadLongText(own);
  await untilEnd(own, jobId, 'succeeded');
  await own.member.delete(`/documents/${documentId}`, 204);
  return deletionWorkflowId(documentId);
}

export const ingest: Scenario = {
  drive: async (own) => {
    const { documentId, jobId } = await uploadLongText(own);
    await untilEnd(own, jobId, 'succeeded');
    return { documentId, jobId };
  },
};

/** Short enough for all steps at once; one for each time that a worker may die of it. */
const ingestSmall: Scenario = {
  drive: async (own) => {
    let jobId = '';
    for (const title of ['first', 'second', 'third']) {
      ({ jobId } = await uploadText(own.member, `The ${title} note is short.`));
      await untilEnd(own, jobId, 'succeeded');
    }
    return { documentId: null, jobId };
  },
};

/** A model says where each chunk stands, and is asked about none of them twice. */
const situate: Scenario = {
  settings: { CONTEXTUAL_MODEL: 'scripted' },
  drive: async (own) => {
    const { documentId, jobId } = await uploadLongText(own);
    await untilEnd(own, jobId, 'succeeded');
    const questions = own.model.requests.map(({ messages }) => messages.at(-1)?.content);
    expect(questions).length.above(100);
    expect(new Set(questions).size).equal(questions.length);
    const chunks = await own.stack.container.db('chunks').where({ documentId }).select('contextualText');
    for (const { contextualText } of chunks) expect(contextualText).match(/\nA scripted answer\.$/);
    return { documentId: null, jobId };
  },
};

/** Cut by meaning, which compares the vectors of sentences and embeds none of them twice. */
const cutByMeaning: Scenario = {
  drive: async (own) => {
    const wishes = { ...chunking, chunking_method: 'semantic' };
    const { jobId } = await uploadText(own.member, content, wishes);
    await untilEnd(own, jobId, 'succeeded');
    const texts = embeddedTexts(own.model);
    expect(texts).length.above(200);
    expect(new Set(texts).size).equal(texts.length);
    own.model.calls.length = 0;
    return { documentId: null, jobId };
  },
};

/** The organization comes to another model, whose vectors are other ones. */
const reembed: Scenario = {
  settings: { EMBEDDING_MODEL: 'old' },
  drive: async (own) => {
    const { model, member, stack } = own;
    model.offer(['old', 'new'].map((id) => ({ id, kind: 'embedding' })));
    model.behaveEmbedding((response, body: { model: string; input: string[] }) => {
      answerEmbeddings((text) => [...wordVector(body.model, text)], body.model)(response, body as never);
    });
    const { documentId, jobId } = await uploadLongText(own);
    await untilEnd(own, jobId, 'succeeded');
    model.calls.length = 0;
    const reembedding = await stack.container.reembedding.start({ orgId: member.orgId, model: 'new' });
    await untilEnd(own, reembedding, 'succeeded');
    const document = await stack.container.db('documents').where({ id: documentId }).first();
    expect(document).include({ generation: 2, activeGeneration: 2, activeEmbeddingModel: 'new' });
    return { documentId: null, jobId: reembedding };
  },
};

const fail: Scenario = {
  drive: async (own) => {
    const { jobId } = await uploadText(own.member, ' \n ');
    expect((await untilEnd(own, jobId, 'failed')).last_error).include({ code: 'empty_document' });
    return { documentId: null, jobId };
  },
};

const cancel: Scenario = {
  faults: 'embedChunks:after_effect:hang',
  drive: async (own) => {
    const { jobId } = await uploadLongText(own);
    await until('it embeds', async () => (await jobOf(own, jobId)).stage === 'embed');
    await own.stack.container.orchestrator.cancel(jobId);
    await untilEnd(own, jobId, 'cancelled');
    return { documentId: null, jobId };
  },
};

const park: Scenario = {
  drive: async (own) => {
    own.model.failEmbeddings(true, 401);
    const { documentId, jobId } = await uploadLongText(own);
    await untilEnd(own, jobId, 'parked');
    own.model.failEmbeddings(false);
    own.model.calls.length = 0;
    await retryUntilDone(own, jobId);
    return { documentId, jobId };
  },
};

const remove: Scenario = {
  drive: async (own) => {
    const jobId = await uploadAndDelete(own);
    await untilEnd(own, jobId, 'succeeded');
    return { documentId: null, jobId };
  },
};

const parkDeletion: Scenario = {
  faults: 'deleteVectors:before:throw:model_not_configured:1',
  drive: async (own) => {
    const jobId = await uploadAndDelete(own);
    await retryUntilDone(own, jobId);
    return { documentId: null, jobId };
  },
};

const failDeletion: Scenario = {
  faults: 'deleteVectors:before:throw:blob_missing',
  drive: async (own) => {
    const jobId = await uploadAndDelete(own);
    await untilEnd(own, jobId, 'failed');
    await retryUntilDone(own, jobId);
    return { documentId: null, jobId };
  },
};

/** A member with a document is removed. @returns the job that erases it */
async function removeAuthor(own: FaultCase): Promise<string> {
  const grace = await aColleague(own.stack, own.member);
  const { jobId } = await uploadLongText({ ...own, member: grace });
  await untilJob(grace, jobId, 'succeeded');
  await own.member.delete(`/entity/members/${grace.userId}`, 204);
  return erasureWorkflowId(grace.userId);
}

const atOnce = { ERASE_AFTER_DAYS: '0' };

const erase: Scenario = {
  settings: atOnce,
  drive: async (own) => {
    const jobId = await removeAuthor(own);
    await untilEnd(own, jobId, 'succeeded');
    expect(await own.stack.container.db('documents')).deep.equal([]);
    return { documentId: null, jobId };
  },
};

const parkErasure: Scenario = {
  settings: atOnce,
  faults: 'eraseDocuments:before:throw:erasure_incomplete:1',
  drive: async (own) => {
    const jobId = await removeAuthor(own);
    await retryUntilDone(own, jobId);
    return { documentId: null, jobId };
  },
};

const failErasure: Scenario = {
  settings: atOnce,
  faults: 'eraseDocuments:before:throw:blob_missing',
  drive: async (own) => {
    const jobId = await removeAuthor(own);
    await untilEnd(own, jobId, 'failed');
    await retryUntilDone(own, jobId);
    return { documentId: null, jobId };
  },
};

/** Words for the anchors of an agent that is published; the first ones stay. */
const anchor: Scenario = {
  drive: async (own) => {
    const agentId = await aPublishedAgent(own.member);
    await untilEnd(own, anchorWordsWorkflowId(agentId), 'succeeded');
    expect(await candidatesOf(own, agentId)).length.within(24, 40);
    return { documentId: null, jobId: anchorWordsWorkflowId(agentId) };
  },
};

async function candidatesOf({ stack }: FaultCase, agentId: string): Promise<string[]> {
  const agent = await stack.container.db('agents').where({ id: agentId }).first('anchorWordCandidates');
  return agent.anchorWordCandidates;
}

const parkAnchoring: Scenario = {
  faults: 'proposeWords:before:throw:model_not_configured:1',
  drive: async (own) => {
    const jobId = anchorWordsWorkflowId(await aPublishedAgent(own.member));
    await retryUntilDone(own, jobId);
    return { documentId: null, jobId };
  },
};

const failAnchoring: Scenario = {
  faults: 'proposeWords:before:throw:blob_missing',
  drive: async (own) => {
    const jobId = anchorWordsWorkflowId(await aPublishedAgent(own.member));
    await untilEnd(own, jobId, 'failed');
    await retryUntilDone(own, jobId);
    return { documentId: null, jobId };
  },
};

const cancelAnchoring: Scenario = {
  faults: 'proposeWords:after_effect:hang',
  drive: async (own) => {
    const jobId = anchorWordsWorkflowId(await aPublishedAgent(own.member));
    await until('it proposes', async () => (await jobOf(own, jobId)).stage === 'propose');
    await own.stack.container.orchestrator.cancel(jobId);
    await untilEnd(own, jobId, 'cancelled');
    return { documentId: null, jobId };
  },
};

const printing = { LIBREOFFICE_PATH: join(import.meta.dirname, 'fake-soffice.sh') };

/** @returns the job that shows it on paper */
async function uploadWordFile({ member }: FaultCase): Promise<{ documentId: string; jobId: string }> {
  const pages = ['The first page tells of fees and notices.', 'The second page tells of storeys and offices.'];
  const file = {
    name: 'note.docx',
    content: new Uint8Array(docxFile(pages.map((text) => docxParagraph(text)).join(''))),
  };
  const { id } = fullDocumentSchema.parse((await member.upload('/documents', file, 201)).body);
  return { documentId: id, jobId: previewWorkflowId(id, 1) };
}

const untilStarted = ({ member }: FaultCase, jobId: string) =>
  until('it is asked for', async () => (await member.raw(`/jobs/${jobId}`)).status === 200);

/** An office document is shown on paper; its one conversion is told its pages. */
const preview: Scenario = {
  settings: printing,
  drive: async (own) => {
    const { documentId, jobId } = await uploadWordFile(own);
    await untilStarted(own, jobId);
    await untilEnd(own, jobId, 'succeeded');
    expect((await own.member.get(`/documents/${documentId}`, 200)).body).include({
      has_preview_pdf: true,
      page_count: 2,
    });
    return { documentId: null, jobId };
  },
};

const stopPreview = (faults: string, drive: (own: FaultCase, jobId: string) => Promise<unknown>): Scenario => ({
  settings: printing,
  faults,
  drive: async (own) => {
    const { jobId } = await uploadWordFile(own);
    await untilStarted(own, jobId);
    await drive(own, jobId);
    return { documentId: null, jobId };
  },
});

const parkPreview = stopPreview('renderPreview:before:throw:model_not_configured:1', retryUntilDone);

const failPreview = stopPreview('renderPreview:before:throw:blob_missing', async (own, jobId) => {
  await untilEnd(own, jobId, 'failed');
  await retryUntilDone(own, jobId);
});

const cancelPreview = stopPreview('renderPreview:after_effect:hang', async (own, jobId) => {
  await until('it renders', async () => (await jobOf(own, jobId)).stage === 'render');
  await own.stack.container.orchestrator.cancel(jobId);
  await untilEnd(own, jobId, 'cancelled');
});

const noDeps = null as never;
const previews = Object.keys(createPreviewActivities({ previews: noDeps }));
const alignment = Object.keys(createAlignmentActivities({ alignment: noDeps }));
const anchoring = Object.keys(createAnchorWordActivities({ anchoring: noDeps }));
const ingestion = Object.keys(createIngestionActivities({ ingestion: noDeps }));
const reembedding = ['countReembeddings', 'openReembeddings', 'awaitReembeddings', 'recordReembedding'];
const deletion = Object.keys(createDeletionActivities({ deletion: noDeps }));
const erasure = Object.keys(createErasureActivities({ erasure: noDeps }));
const exports = Object.keys(createExportActivities({ exportSteps: noDeps }));
const connectors = Object.keys(createConnectorActivities({ importSteps: noDeps, syncs: noDeps }));
const evaluation = Object.keys(createEvaluationActivities({ evaluationSteps: noDeps }));

/** Steps that a sound document of some size does not take. */
const detours: Record<string, Scenario> = {
  ingestAtOnce: ingestSmall,
  embedWindows: cutByMeaning,
  situateChunks: situate,
  recordFailure: fail,
  recordCancellation: cancel,
  recordParked: park,
  recordResumed: park,
  recordParkedDeletion: parkDeletion,
  recordResumedDeletion: parkDeletion,
  recordDeletionFailure: failDeletion,
  recordAlignmentFailure: failScoring,
  recordAlignmentCancellation: cancelScoring,
  recordParkedAnchoring: parkAnchoring,
  recordResumedAnchoring: parkAnchoring,
  recordAnchoringFailure: failAnchoring,
  recordAnchoringCancellation: cancelAnchoring,
  recordParkedPreview: parkPreview,
  recordResumedPreview: parkPreview,
  recordPreviewFailure: failPreview,
  recordPreviewCancellation: cancelPreview,
  recordParkedErasure: parkErasure,
  recordResumedErasure: parkErasure,
  recordErasureFailure: failErasure,
  recordParkedExport: parkExport,
  recordResumedExport: parkExport,
  recordExportFailure: failExport,
  recordExportCancellation: cancelExport,
  queueSyncOfConnection: queueByTime,
  deleteMissing: syncBucket,
  recordFileFailure: terminateFile,
  recordImportParked: parkImport,
  recordImportResumed: parkImport,
  recordImportFailure: failImport,
  recordImportCancellation: cancelImport,
  recordEvaluationFailure: failEvaluation,
  recordEvaluationCancellation: cancelEvaluation,
};

type Pipeline = keyof typeof taskQueues;

/** @property queues that the scenario's worker polls; a worker of all queues takes seconds of a core to start */
export type Case = { step: string; scenario: Scenario; queues: string };

/** Pipelines that a scenario of a pipeline goes through besides. */
const prerequisites: Partial<Record<Pipeline, Pipeline[]>> = {
  reembedding: ['ingestion'],
  alignment: ['anchoring'],
  previews: ['ingestion'],
  deletion: ['ingestion'],
  erasure: ['ingestion', 'deletion'],
  exports: ['ingestion'],
  evaluation: ['anchoring'],
  connectors: ['ingestion', 'deletion'],
};

const cases = (pipeline: Pipeline, names: readonly string[], usual: Scenario): Case[] => {
  const queues = [pipeline, ...(prerequisites[pipeline] ?? [])].map((name) => taskQueues[name]).join(',');
  return names.map((step) => ({ step, scenario: detours[step] ?? usual, queues }));
};

/** By pipeline: every step, and a scenario that takes it. A new step is here by itself, and fails until it is reached. */
const pipelines: Record<Pipeline, Case[]> = {
  ingestion: cases('ingestion', ingestion, ingest),
  reembedding: cases('reembedding', reembedding, reembed),
  alignment: cases('alignment', alignment, scoreChat),
  anchoring: cases('anchoring', anchoring, anchor),
  previews: cases('previews', previews, preview),
  deletion: cases('deletion', deletion, remove),
  erasure: cases('erasure', erasure, erase),
  exports: cases('exports', exports, exportOnce),
  evaluation: cases('evaluation', evaluation, evaluateGolden),
  connectors: cases('connectors', connectors, importBucket),
  // Not in F1: what was not mended is found again by the next run.
  storeAudit: [],
};

const everyStep = Object.values(pipelines).flat();

/** The everyday run has ingestion alone: each case takes workers a minute. `FAULT_STEPS` names others, in any run. */
export const steps: readonly Case[] = wantedSteps?.map(caseOf) ?? (isFullRun ? everyStep : pipelines.ingestion);

function caseOf(wanted: string): Case {
  const found = everyStep.find(({ step }) => step === wanted);
  if (found === undefined) throw new Error(`FAULT_STEPS: no pipeline of F1 has a step ${wanted}`);
  return found;
}
