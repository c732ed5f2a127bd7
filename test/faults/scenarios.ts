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
  exportWorkflowId,
  previewWorkflowId,
} from '#src/contracts/workflow-ids.ts';
import { taskQueues } from '#src/contracts/workflow-runs.ts';
import { exportSchema } from '#src/modules/exports/exports.schema.ts';
import { aColleague, anEvaluableVersion, anUpload, aPublishedAgent, startPath } from '#test/support/builders.ts';
import { docxFile, docxParagraph, zipFile } from '#test/support/document-fixtures.ts';
import { downloaded, recordsOf, unpack } from '#test/support/exported.ts';
import { type FaultCase, uploadText } from '#test/support/fault-case.ts';
import { isFullRun, wantedSteps } from '#test/support/fault-run.ts';
import { wordVector } from '#test/support/indexed-documents.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { embeddedTexts } from '#test/support/scripted-model.ts';
import { answerEmbeddings } from '#test/support/scripted-server.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';
import { cancelScoring, failScoring, scoreChat } from './chat-scenarios.ts';
import {
  cancelImport,
  failImport,
  importBucket,
  parkImport,
  syncBucket,
  syncBySchedule,
  terminateFiles,
} from './import-scenarios.ts';
import { type Case, endsOf, retryUntilDone, type Scenario } from './scenario.ts';

/** A document of some hundred chunks, which take several calls of the model; another one for each seed. */
const random = seeded(runSeed);
const words = ['fee', 'notice', 'period', 'contract', 'month', 'invoice', 'office', 'storey'] as const;
const content = Array.from(
  { length: 180 },
  (_, index) => `Sentence ${index} speaks of a ${random.pick(words)} and a ${random.pick(words)}.`,
).join(' ');
const chunking = { target_tokens: '14', overlap_tokens: '0' };

const exportedTexts = Array.from({ length: 5 }, (_, n) => `Text number ${n}.`);

const uploadLongText = ({ member }: Pick<FaultCase, 'member'>) => uploadText(member, content, chunking);

async function ingestLongText(own: Pick<FaultCase, 'member'>) {
  const uploaded = await uploadLongText(own);
  await untilJob(own.member, uploaded.jobId, 'succeeded');
  return uploaded;
}

export const ingest: Scenario = { drive: ingestLongText };

/** Short enough for all steps at once; one for each time that a worker may die of it. */
const ingestSmall: Scenario = {
  drive: async ({ member }) => {
    let jobId = '';
    for (const title of ['first', 'second', 'third']) {
      ({ jobId } = await uploadText(member, `The ${title} note is short.`));
      await untilJob(member, jobId, 'succeeded');
    }
    return { jobId };
  },
};

const beginLongIngestion = async (own: FaultCase) => (await uploadLongText(own)).jobId;
const longIngestion = endsOf(beginLongIngestion);

/** A model writes the context of each chunk, and is asked about none of them twice. */
const situate = endsOf(beginLongIngestion, { CONTEXTUAL_MODEL: 'scripted' }).succeeds(async ({ model, stack }) => {
  const questions = model.requests.map(({ messages }) => messages.at(-1)?.content);
  expect(questions).length.above(100);
  expect(new Set(questions).size).equal(questions.length);
  for (const { contextualText } of await stack.container.db('chunks').select('contextualText')) {
    expect(contextualText).match(/\nA scripted answer\.$/);
  }
});

/** Semantic chunking compares the vectors of sentences, and embeds none of them twice. */
const chunkByMeaning = endsOf(async ({ member }) => {
  return (await uploadText(member, content, { ...chunking, chunking_method: 'semantic' })).jobId;
}).succeeds(async ({ model }) => {
  const texts = embeddedTexts(model);
  expect(texts).length.above(200);
  expect(new Set(texts).size).equal(texts.length);
  model.calls.length = 0;
});

/** An archive of more files than a killed worker may import twice. */
const unpackArchive = endsOf(async ({ member }) => {
  const files = Object.fromEntries(exportedTexts.map((text, n) => [`folder/${n}.txt`, text]));
  return `ingest-${(await anUpload(member, { name: 'files.zip', content: new Uint8Array(zipFile(files)) })).id}-1`;
}).succeeds(async ({ member, stack }) => {
  const documents = await stack.container.db('documents').where({ importSourceProvider: 'archive' }).orderBy('name');
  expect(documents.map(({ name }) => name)).deep.equal(exportedTexts.map((_, n) => `${n}.txt`));
  for (const { id } of documents) await untilJob(member, `ingest-${id}-1`, 'succeeded');
});

const reembed = endsOf(
  async ({ model, member, stack }) => {
    model.offer(['old', 'new'].map((id) => ({ id, kind: 'embedding' })));
    model.behaveEmbedding((response, body: { model: string; input: string[] }) => {
      answerEmbeddings((text) => [...wordVector(body.model, text)], body.model)(response, body as never);
    });
    await ingestLongText({ member });
    model.calls.length = 0;
    return stack.container.reembedding.start({ orgId: member.orgId, model: 'new' });
  },
  { EMBEDDING_MODEL: 'old' },
).succeeds(async ({ stack }) => {
  const document = await stack.container.db('documents').first();
  expect(document).include({ generation: 2, activeGeneration: 2, activeEmbeddingModel: 'new' });
});

const fail: Scenario = {
  drive: async ({ member }) => {
    const { jobId } = await uploadText(member, ' \n ');
    expect((await untilJob(member, jobId, 'failed')).last_error).include({ code: 'empty_document' });
    return { jobId };
  },
};

const park: Scenario = {
  drive: async (own) => {
    own.model.failEmbeddings(true, 401);
    const uploaded = await uploadLongText(own);
    await untilJob(own.member, uploaded.jobId, 'parked');
    own.model.failEmbeddings(false);
    own.model.calls.length = 0;
    await retryUntilDone(own, uploaded.jobId);
    return uploaded;
  },
};

const deletion = endsOf(async (own) => {
  const { documentId } = await ingestLongText(own);
  await own.member.delete(`/documents/${documentId}`, 204);
  return deletionWorkflowId(documentId);
});

const erasure = endsOf(
  async ({ stack, member }) => {
    const grace = await aColleague(stack, member);
    await ingestLongText({ member: grace });
    await member.delete(`/entity/members/${grace.userId}`, 204);
    return erasureWorkflowId(grace.userId);
  },
  { ERASE_AFTER_DAYS: '0' },
);

const anchoring = endsOf(async ({ member }) => anchorWordsWorkflowId(await aPublishedAgent(member)));

const proposesWords = async ({ stack }: FaultCase) => {
  const { anchorWordCandidates } = await stack.container.db('agents').first('anchorWordCandidates');
  expect(anchorWordCandidates).length.within(24, 40);
};

const preview = endsOf(
  async ({ member }) => {
    const pages = ['The first page tells of fees and notices.', 'The second page tells of storeys and offices.'];
    const docx = new Uint8Array(docxFile(pages.map((text) => docxParagraph(text)).join('')));
    const jobId = previewWorkflowId((await anUpload(member, { name: 'note.docx', content: docx })).id, 1);
    await until('the preview is requested', async () => (await member.raw(`/jobs/${jobId}`)).status === 200);
    return jobId;
  },
  { LIBREOFFICE_PATH: join(import.meta.dirname, '..', 'support', 'fake-soffice.sh') },
);

const hasPages = async ({ stack, member }: FaultCase) => {
  const { id } = await stack.container.db('documents').first('id');
  const { body } = await member.get(`/documents/${id}`, 200);
  expect(body).include({ has_preview_pdf: true, page_count: 2 });
};

const exporting = endsOf(async ({ member }) => {
  for (const text of exportedTexts) await uploadText(member, text, { ingest: 'false' });
  return Object((await member.post('/entity/org/exports', undefined, 202)).body).job_id;
});

/** Checks that the export holds each document once, with its file. */
async function holdsEverything({ member, stack }: FaultCase, jobId: string): Promise<void> {
  const exportId = jobId.replace(exportWorkflowId(''), '');
  const { volumes } = exportSchema.parse((await member.get(`/entity/org/exports/${exportId}`, 200)).body);
  const files = await unpack(await downloaded(volumes));
  const texts = recordsOf(files, 'documents').map(({ original }) => String(files.get(Object(original).path)));
  expect(texts.sort()).deep.equal(exportedTexts);
  // A blob stored by a killed worker is deleted, now or by the sweeper.
  await expectStoresMatch(stack);
}

const hasNoVolumes = async ({ stack }: FaultCase) => expect(await stack.container.db('exportVolumes')).deep.equal([]);

const goldenCases = [
  { id: 'fee', prompt: 'What is the fee?', reference_answer: 'One percent.' },
  { id: 'term', prompt: 'How long?', reference_answer: '' },
];
const judge = { EVAL_MODEL: 'judge' };

async function beginEvaluation({ member, stack }: FaultCase, fields: object = {}): Promise<string> {
  const of = await anEvaluableVersion(member, fields);
  await member.post(startPath(of), { run_golden: true }, 200, { prefer: 'wait=0' });
  const { evalRunId } = await stack.container.db('draftVersions').where({ id: of.version_id }).first('evalRunId');
  return evalRunId;
}

/** No model is asked again for what it has answered before. */
const evaluateGolden = endsOf(async (own) => {
  own.model.behave(judgeWell());
  return beginEvaluation(own, { golden_cases: goldenCases });
}, judge).succeeds(async ({ model }) => {
  const questions = model.requests.map(({ messages }) => JSON.stringify(messages));
  expect(new Set(questions).size).equal(1 + 2 * goldenCases.length);
  model.calls.length = 0;
});

const failEvaluation: Scenario = {
  settings: judge,
  drive: async (own) => {
    own.model.behave(() => ({ kind: 'answer', text: 'No verdict.' }));
    const jobId = await beginEvaluation(own);
    await untilJob(own.member, jobId, 'failed');
    own.model.calls.length = 0;
    return { jobId };
  },
};

const noDeps = null as never;

/** The scenarios of steps that the usual scenario of their pipeline does not take. */
const detours: Record<string, Scenario> = {
  ingestAtOnce: ingestSmall,
  embedWindows: chunkByMeaning,
  situateChunks: situate,
  importArchive: unpackArchive,
  recordFailure: fail,
  recordCancellation: longIngestion.isCancelled('embedChunks:after_effect:hang', 'embed'),
  ...parked('', park),
  ...parked('Deletion', deletion.isParked('deleteVectors:before:throw:model_not_configured:1')),
  recordDeletionFailure: deletion.fails('deleteVectors:before:throw:blob_missing'),
  recordAlignmentFailure: failScoring,
  recordAlignmentCancellation: cancelScoring,
  ...parked('Anchoring', anchoring.isParked('proposeWords:before:throw:model_not_configured:1')),
  recordAnchoringFailure: anchoring.fails('proposeWords:before:throw:blob_missing'),
  recordAnchoringCancellation: anchoring.isCancelled('proposeWords:after_effect:hang', 'propose'),
  ...parked('Preview', preview.isParked('renderPreview:before:throw:model_not_configured:1')),
  recordPreviewFailure: preview.fails('renderPreview:before:throw:blob_missing'),
  recordPreviewCancellation: preview.isCancelled('renderPreview:after_effect:hang', 'render'),
  ...parked('Erasure', erasure.isParked('eraseDocuments:before:throw:erasure_incomplete:1')),
  recordErasureFailure: erasure.fails('eraseDocuments:before:throw:blob_missing'),
  ...parked('Export', exporting.isParked('writeVolume:before:throw:blob_store_refused:1', holdsEverything)),
  recordExportFailure: exporting.fails('writeVolume:before:throw:forbidden', holdsEverything),
  recordExportCancellation: exporting.isCancelled('writeVolume:after_effect:hang', 'write', hasNoVolumes),
  queueSyncOfConnection: syncBySchedule,
  deleteMissing: syncBucket,
  recordFileFailure: terminateFiles,
  recordImportParked: parkImport,
  recordImportResumed: parkImport,
  recordImportFailure: failImport,
  recordImportCancellation: cancelImport,
  recordEvaluationFailure: failEvaluation,
  recordEvaluationCancellation: endsOf(beginEvaluation, judge).isCancelled('judgeUnit:before:hang', 'judge'),
};

function parked(what: string, scenario: Scenario): Record<string, Scenario> {
  return { [`recordParked${what}`]: scenario, [`recordResumed${what}`]: scenario };
}

type Pipeline = keyof typeof taskQueues;
/** The store audit is not in F1: what one run did not mend is found again by the next. `workflows` has no steps. */
type TestedPipeline = Exclude<Pipeline, 'storeAudit' | 'workflows'>;

/**
 * Pipelines by name: every activity, the scenario that takes most of them, and the other pipelines that it goes through.
 * A new activity is here by itself, and fails until a scenario reaches it.
 */
const pipelines: Record<TestedPipeline, [activities: object, usual: Scenario, ...others: Pipeline[]]> = {
  ingestion: [createIngestionActivities({ ingestion: noDeps, archives: noDeps }), ingest],
  reembedding: [
    { countReembeddings: 1, openReembeddings: 1, awaitReembeddings: 1, recordReembedding: 1 },
    reembed,
    'ingestion',
  ],
  alignment: [createAlignmentActivities({ alignment: noDeps }), scoreChat, 'anchoring'],
  anchoring: [createAnchorWordActivities({ anchoring: noDeps }), anchoring.succeeds(proposesWords)],
  previews: [createPreviewActivities({ previews: noDeps }), preview.succeeds(hasPages), 'ingestion'],
  deletion: [createDeletionActivities({ deletion: noDeps }), deletion.succeeds(), 'ingestion'],
  erasure: [
    createErasureActivities({ erasure: noDeps }),
    erasure.succeeds(async ({ stack }) => expect(await stack.container.db('documents')).deep.equal([])),
    ...(['ingestion', 'deletion'] as const),
  ],
  exports: [createExportActivities({ exportSteps: noDeps }), exporting.succeeds(holdsEverything), 'ingestion'],
  evaluation: [createEvaluationActivities({ evaluationSteps: noDeps }), evaluateGolden, 'anchoring'],
  connectors: [
    createConnectorActivities({ importSteps: noDeps, syncs: noDeps }),
    importBucket,
    ...(['ingestion', 'deletion'] as const),
  ],
};

function casesOf(pipeline: TestedPipeline): Case[] {
  const [activities, usual, ...others] = pipelines[pipeline];
  const queues = [pipeline, ...others].map((name) => taskQueues[name]).join(',');
  return Object.keys(activities).map((step) => ({ step, scenario: detours[step] ?? usual, queues }));
}

const everyStep = (Object.keys(pipelines) as TestedPipeline[]).flatMap(casesOf);

/** Small runs have ingestion alone: each case takes workers a minute. `FAULT_STEPS` names others, in any run. */
export const steps: readonly Case[] = wantedSteps?.map(caseOf) ?? (isFullRun ? everyStep : casesOf('ingestion'));

function caseOf(wanted: string): Case {
  const found = everyStep.find(({ step }) => step === wanted);
  if (found === undefined) throw new Error(`FAULT_STEPS: no pipeline of F1 has a step ${wanted}`);
  return found;
}
