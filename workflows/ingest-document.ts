import {
  ApplicationFailure,
  allHandlersFinished,
  condition,
  continueAsNew,
  defineQuery,
  isCancellation,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { IngestionActivities } from '#activities/ingestion.ts';
import type {
  ActivateGenerationInput,
  ConvertResult,
  ImportArchiveResult,
  IngestDocumentResult,
  IngestDocumentRunInput,
  IngestionProgress,
  IngestionStage,
} from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { isPermanentFailure, readJobAttemptOfRun, recordUnsuccessfulRunEnd, toRunFailure } from './failure.ts';
import { createParkableStepRunner } from './parking.ts';
import {
  fileTransferPolicy,
  jobUpdatePolicy,
  modelBatchPolicy,
  quickActivityPolicy,
  singleAttemptPolicy,
  slowActivityPolicy,
} from './policies.ts';
import { showRunProgress, showRunStage } from './visibility.ts';

const { ingestAtOnce } = proxyActivities<IngestionActivities>(singleAttemptPolicy);
const { parseDocument, convertDocument } = proxyActivities<IngestionActivities>(slowActivityPolicy);
const { importArchive } = proxyActivities<IngestionActivities>(fileTransferPolicy);
const { embedWindows, situateChunks, chunkDocument, embedChunks } =
  proxyActivities<IngestionActivities>(modelBatchPolicy);
const { activateGeneration } = proxyActivities<IngestionActivities>(quickActivityPolicy);
const { recordParked, recordResumed, recordFailure, recordCancellation } =
  proxyActivities<IngestionActivities>(jobUpdatePolicy);

const stageQuery = defineQuery<IngestionProgress>(stageQueryName);

const start: IngestionProgress = { stage: 'queued', converted: null, chunksTotal: null, timesVectorsMissed: 0 };
/**
 * Maximum attempts at embedding. A vector store may lose vectors once in a crash; if it loses them repeatedly, it is
 * broken.
 */
const embeddingAttempts = 3;
const nothingImported: ImportArchiveResult = { next: 0, files: 0, skippedCount: 0, skipped: [] };
/** Maximum number of skipped files that the job names. */
const maxSkippedShown = 20;
/** Continues as new after this many events (about 50 slices), so that a history stays readable. */
const eventsPerRun = 300;

/** Ingests one generation of a document, which becomes readable completely or not at all. */
export async function ingestDocument({
  isSmall = false,
  progress = start,
  ...input
}: IngestDocumentRunInput): Promise<IngestDocumentResult> {
  setHandler(stageQuery, () => progress);

  const orPark = createParkableStepRunner({
    parked: (error) => recordParked({ ...input, error }),
    resumed: () => recordResumed(input),
  });
  const runStep = <T>(step: () => Promise<T>): Promise<T> =>
    orPark(async () => {
      await continueAsNewIfLong();
      return step();
    });

  async function continueAsNewIfLong(): Promise<void> {
    const { historyLength, continueAsNewSuggested } = workflowInfo();
    const isLong = historyLength > eventsPerRun || continueAsNewSuggested;
    if (!isLong) return;
    await condition(allHandlersFinished);
    await continueAsNew<typeof ingestDocument>({ ...input, progress });
  }

  function enter(stage: IngestionStage, details: string): void {
    progress = { ...progress, stage };
    showRunStage(stage, details);
  }

  /**
   * Runs each slice of the work as an activity of its own, so that tasks of other organizations can run in between.
   */
  async function inSlices(slice: () => Promise<number>): Promise<void> {
    for (let before = Infinity; ; ) {
      const left = await runStep(slice);
      if (left <= 0) return;
      if (left >= before) throw noProgress(progress.stage, before, left);
      before = left;
    }
  }

  /** Ingests a small document in one cheap activity. False if the workflow must go on with separate steps. */
  async function ingestInOneStep(): Promise<boolean> {
    enter('parse', 'Ingesting the small document in one activity; the job and its heartbeats show the stage.');
    try {
      const { converted, chunksTotal, isDone } = await ingestAtOnce(input);
      progress = { ...progress, converted, chunksTotal };
      return isDone;
    } catch (error) {
      const isFinal = isCancellation(error) || isPermanentFailure(error) || toRunFailure(error) === undefined;
      if (isFinal) throw error;
      return false;
    }
  }

  async function convert(): Promise<ConvertResult> {
    enter('parse', 'Detecting the format of the original.');
    const { sourceFormat, sizeBytes } = await runStep(() => parseDocument(input));
    if (sourceFormat === 'archive') await importFiles();
    enter('convert', `Converting ${sizeBytes} bytes of ${sourceFormat} to Markdown.`);
    let converted = await runStep(() => convertDocument(input));
    if (!converted.pagesLeft) return converted;
    await inSlices(async () => {
      const pages = converted.pagesLeft ?? 0;
      enter('convert', `Reading scanned pages by OCR; ${pages} pages are left.`);
      converted = await convertDocument(input);
      return converted.pagesLeft ?? 0;
    });
    return converted;
  }

  /** Imports the files of an archive as documents, whose ingestions are jobs of their own. */
  async function importFiles(): Promise<void> {
    for (;;) {
      const { next, files, skippedCount, skipped } = progress.archive ?? nothingImported;
      if (next === null) return;
      enter('convert', `Importing the files of the archive; ${next} are done.`);
      const slice = await runStep(() => importArchive({ ...input, from: next }));
      progress = {
        ...progress,
        archive: {
          next: slice.next,
          files: files + slice.files,
          skippedCount: skippedCount + slice.skippedCount,
          skipped: [...skipped, ...slice.skipped].slice(0, maxSkippedShown),
        },
      };
    }
  }

  async function chunk({ charCount, pageCount, needsWindows, needsContexts }: ConvertResult): Promise<number> {
    if (needsWindows) {
      const what = 'Embedding sentences to find where the topic changes';
      enter(needsContexts ? 'situate' : 'chunk', `${what}; the job shows the progress.`);
      await inSlices(async () => (await embedWindows(input)).windowsLeft);
    }
    if (needsContexts) {
      enter('situate', 'Generating a context for each chunk with a model; the job shows the progress.');
      await inSlices(async () => (await situateChunks(input)).chunksLeft);
    }
    enter('chunk', `Chunking ${charCount} characters${pageCount === null ? '' : ` on ${pageCount} pages`}.`);
    return (await runStep(() => chunkDocument(input))).chunksTotal;
  }

  async function embedAndActivate(chunksTotal: number): Promise<void> {
    for (;;) {
      enter('embed', `Embedding ${chunksTotal} chunks; the job shows the progress.`);
      await inSlices(async () => {
        const { chunksLeft = 0, expectedSeconds } = await embedChunks(input);
        if (expectedSeconds !== undefined) {
          const left = `${chunksLeft} are left, for about ${expectedSeconds} seconds at the rate of the last step`;
          showRunProgress(`Embedding ${chunksTotal} chunks: ${left}. The job shows the progress.`);
        }
        return chunksLeft;
      });

      enter('activate', `Activating generation ${input.generation} with ${chunksTotal} chunks.`);
      try {
        return await runStep(() => activateGeneration({ ...input, ...noteOf(progress.archive) }));
      } catch (error) {
        const timesVectorsMissed = progress.timesVectorsMissed + 1;
        if (toRunFailure(error)?.code !== 'vectors_missing' || timesVectorsMissed === embeddingAttempts) throw error;
        progress = { ...progress, timesVectorsMissed };
      }
    }
  }

  async function runEachStep(): Promise<void> {
    const converted = progress.converted ?? (await convert());
    progress = { ...progress, converted };
    const chunksTotal = progress.chunksTotal ?? (await chunk(converted));
    progress = { ...progress, chunksTotal };
    await embedAndActivate(chunksTotal);
  }

  try {
    const isDone = isSmall && (await ingestInOneStep());
    if (!isDone) await runEachStep();

    const chunks = progress.chunksTotal ?? 0;
    progress = { ...progress, stage: 'done' };
    showRunStage('done', `Done: ${chunks} chunks.`);
    return { chunks };
  } catch (error) {
    throw await recordUnsuccessfulRunEnd(error, {
      cancelled: () => recordCancellation({ ...input, ...readJobAttemptOfRun() }),
      failed: (failure) => recordFailure({ ...input, ...readJobAttemptOfRun(), error: failure }),
    });
  }
}

function noteOf(archive: ImportArchiveResult | undefined): Pick<ActivateGenerationInput, 'note'> {
  if (archive === undefined || archive.skippedCount === 0) return {};
  const { files, skippedCount, skipped } = archive;
  const more = skippedCount > skipped.length ? `; and ${skippedCount - skipped.length} more` : '';
  const message = `${skippedCount} of ${files} files were not imported: ${skipped.join('; ')}${more}.`;
  return { note: { code: 'files_skipped', message } };
}

function noProgress(stage: string, before: number, left: number): ApplicationFailure {
  const message = `A slice of stage ${stage} made no progress: ${left} items are left, ${before} were left before.`;
  return ApplicationFailure.nonRetryable(message, 'no_progress');
}
