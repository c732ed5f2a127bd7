import {
  CancellationScope,
  CancelledFailure,
  defineQuery,
  isCancellation,
  proxyActivities,
  setCurrentDetails,
  setHandler,
} from '@temporalio/workflow';
import type { IngestionActivities } from '#activities/ingestion.ts';
import type {
  IngestDocumentInput,
  IngestDocumentResult,
  IngestionProgress,
  IngestionStage,
} from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/messages.ts';
import { failureOf, runFailure } from './failure.ts';
import { bulk, model, quick } from './policies.ts';
import { showFailure, showStage } from './visibility.ts';

const { parseDocument, convertDocument, chunkDocument } = proxyActivities<IngestionActivities>(bulk);
const { embedChunks } = proxyActivities<IngestionActivities>(model);
const { activateGeneration, recordFailure, recordCancellation } = proxyActivities<IngestionActivities>(quick);

const stageQuery = defineQuery<IngestionProgress>(stageQueryName);

/** Makes one generation of a document readable: all of it, or, when a step fails for good, nothing of it. */
export async function ingestDocument(input: IngestDocumentInput): Promise<IngestDocumentResult> {
  let progress: IngestionProgress = { stage: 'queued', chunksTotal: null };
  setHandler(stageQuery, () => progress);

  function enter(stage: IngestionStage, details: string): void {
    progress = { ...progress, stage };
    showStage(stage, details);
  }

  try {
    enter('parse', 'Looking at the original to tell its format.');
    const { sourceFormat, sizeBytes } = await parseDocument(input);

    enter('convert', `Converting ${sizeBytes} bytes of ${sourceFormat} to Markdown.`);
    const { charCount, pageCount } = await convertDocument(input);

    enter('chunk', `Cutting ${charCount} characters${pageCount === null ? '' : ` on ${pageCount} pages`} into chunks.`);
    const { chunksTotal } = await chunkDocument(input);

    progress = { ...progress, chunksTotal };
    enter('embed', `Embedding ${chunksTotal} chunks; the job's progress says how many are done.`);
    await embedChunks(input);

    enter('activate', `Making generation ${input.generation} with ${chunksTotal} chunks the one that readers see.`);
    await activateGeneration(input);

    progress = { ...progress, stage: 'done' };
    showStage('done', `Done: ${chunksTotal} chunks.`);
    return { chunks: chunksTotal };
  } catch (error) {
    // A step whose worker died can no longer say that it was cancelled: it times out.
    const isCancelled = isCancellation(error) || CancellationScope.current().consideredCancelled;
    throw await CancellationScope.nonCancellable(() =>
      isCancelled ? recordCancelled(input) : recordFailed(input, error),
    );
  }
}

/** @returns what ends the run as cancelled */
async function recordCancelled(input: IngestDocumentInput): Promise<CancelledFailure> {
  setCurrentDetails('Cancelled.');
  await recordCancellation(input);
  return new CancelledFailure('The ingestion was cancelled.');
}

/** @returns what ends the run as failed, with the code of its fault */
async function recordFailed(input: IngestDocumentInput, error: unknown): Promise<unknown> {
  const failure = failureOf(error);
  if (failure === undefined) return error;
  showFailure(failure);
  await recordFailure({ ...input, error: failure });
  return runFailure(failure, error);
}
