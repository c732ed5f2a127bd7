import {
  ApplicationFailure,
  allHandlersFinished,
  condition,
  continueAsNew,
  defineQuery,
  isCancellation,
  patched,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { IngestionActivities } from '#activities/ingestion.ts';
import type {
  ConvertResult,
  IngestDocumentResult,
  IngestDocumentRun,
  IngestionProgress,
  IngestionStage,
} from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { attemptOfJob, endOfRun, failureOf } from './failure.ts';
import { parking } from './parking.ts';
import { attempt, bulk, modelSlice, quick, record } from './policies.ts';
import { showStage } from './visibility.ts';

const { ingestAtOnce } = proxyActivities<IngestionActivities>(attempt);
const { parseDocument, convertDocument } = proxyActivities<IngestionActivities>(bulk);
const { embedWindows, situateChunks, chunkDocument, embedChunks } = proxyActivities<IngestionActivities>(modelSlice);
const { activateGeneration } = proxyActivities<IngestionActivities>(quick);
const { recordParked, recordResumed, recordFailure, recordCancellation } = proxyActivities<IngestionActivities>(record);

const stageQuery = defineQuery<IngestionProgress>(stageQueryName);

const start: IngestionProgress = { stage: 'queued', converted: null, chunksTotal: null, timesVectorsMissed: 0 };
/** A vector store that loses points again and again is broken; once may be a crash of its own. */
const embeddingAttempts = 3;
/** Fifty slices: the state that goes along is small, and nobody scrolls through thousands of events. */
const eventsPerRun = 300;

/** Makes one generation of a document readable: all of it, or, when a step fails for good, nothing of it. */
export async function ingestDocument({
  isSmall = false,
  progress = start,
  ...input
}: IngestDocumentRun): Promise<IngestDocumentResult> {
  setHandler(stageQuery, () => progress);

  const orPark = parking({
    parked: (error) => recordParked({ ...input, error }),
    resumed: () => recordResumed(input),
  });
  const take = <T>(step: () => Promise<T>): Promise<T> =>
    orPark(async () => {
      await goOnInNewHistory();
      return step();
    });

  /** Once this one is long: what was done is in Postgres, and what is to be done in `progress`. */
  async function goOnInNewHistory(): Promise<void> {
    const { historyLength, continueAsNewSuggested } = workflowInfo();
    const isLong = historyLength > eventsPerRun || continueAsNewSuggested;
    // Runs that were longer before there was this have gone on as they were.
    if (!isLong || !patched('new-history')) return;
    await condition(allHandlersFinished);
    await continueAsNew<typeof ingestDocument>({ ...input, progress });
  }

  function enter(stage: IngestionStage, details: string): void {
    progress = { ...progress, stage };
    showStage(stage, details);
  }

  /** So that between two slices it is the turn of others who wait. */
  async function inSlices(slice: () => Promise<number>): Promise<void> {
    for (let before = Infinity; ; ) {
      const left = await take(slice);
      if (left <= 0) return;
      // Runs that worked in vain before there was this have gone on.
      if (left >= before && patched('no-progress')) throw noProgress(progress.stage, before, left);
      before = left;
    }
  }

  /** For an operator five steps say no more than one that goes well. @returns whether it did, and to the end */
  async function takeAllAtOnce(): Promise<boolean> {
    enter('parse', 'Taking all steps at once, as it is small; the job tells which is under way.');
    try {
      const { converted, chunksTotal, isDone } = await ingestAtOnce(input);
      progress = { ...progress, converted, chunksTotal };
      return isDone;
    } catch (error) {
      if (isCancellation(error) || failureOf(error) === undefined) throw error;
      return false;
    }
  }

  async function convert(): Promise<ConvertResult> {
    enter('parse', 'Looking at the original to tell its format.');
    const { sourceFormat, sizeBytes } = await take(() => parseDocument(input));
    enter('convert', `Converting ${sizeBytes} bytes of ${sourceFormat} to Markdown.`);
    let converted = await take(() => convertDocument(input));
    if (!converted.pagesLeft) return converted;
    await inSlices(async () => {
      const pages = converted.pagesLeft ?? 0;
      enter('convert', `Reading pages that are pictures by OCR, of which ${pages} are left.`);
      converted = await convertDocument(input);
      return converted.pagesLeft ?? 0;
    });
    return converted;
  }

  async function cut({ charCount, pageCount, needsWindows, needsContexts }: ConvertResult): Promise<number> {
    if (needsWindows) {
      const what = 'Embedding the sentences to find where the subject changes';
      enter(needsContexts ? 'situate' : 'chunk', `${what}; the job's progress says how many are done.`);
      await inSlices(async () => (await embedWindows(input)).windowsLeft);
    }
    if (needsContexts) {
      enter('situate', "Asking a model where each chunk stands; the job's progress says how many are done.");
      await inSlices(async () => (await situateChunks(input)).chunksLeft);
    }
    enter('chunk', `Cutting ${charCount} characters${pageCount === null ? '' : ` on ${pageCount} pages`} into chunks.`);
    return (await take(() => chunkDocument(input))).chunksTotal;
  }

  async function embedAndActivate(chunksTotal: number): Promise<void> {
    for (;;) {
      enter('embed', `Embedding ${chunksTotal} chunks; the job's progress says how many are done.`);
      await inSlices(async () => (await embedChunks(input)).chunksLeft ?? 0);

      enter('activate', `Making generation ${input.generation} with ${chunksTotal} chunks the one that readers see.`);
      try {
        return await take(() => activateGeneration(input));
      } catch (error) {
        const timesVectorsMissed = progress.timesVectorsMissed + 1;
        if (failureOf(error)?.code !== 'vectors_missing' || timesVectorsMissed === embeddingAttempts) throw error;
        progress = { ...progress, timesVectorsMissed };
      }
    }
  }

  async function takeEachStep(): Promise<void> {
    const converted = progress.converted ?? (await convert());
    progress = { ...progress, converted };
    const chunksTotal = progress.chunksTotal ?? (await cut(converted));
    progress = { ...progress, chunksTotal };
    await embedAndActivate(chunksTotal);
  }

  try {
    const isDone = isSmall && (await takeAllAtOnce());
    if (!isDone) await takeEachStep();

    const chunks = progress.chunksTotal ?? 0;
    progress = { ...progress, stage: 'done' };
    showStage('done', `Done: ${chunks} chunks.`);
    return { chunks };
  } catch (error) {
    throw await endOfRun(error, {
      cancelled: () => recordCancellation({ ...input, ...attemptOfJob() }),
      failed: (failure) => recordFailure({ ...input, ...attemptOfJob(), error: failure }),
    });
  }
}

function noProgress(stage: string, before: number, left: number): ApplicationFailure {
  const message = `A slice of the stage ${stage} left ${left} to be done, and there were ${before} before it.`;
  return ApplicationFailure.nonRetryable(message, 'no_progress');
}
