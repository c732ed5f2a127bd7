import { defineQuery, proxyActivities, setHandler } from '@temporalio/workflow';
import type { IngestionActivities } from '#activities/ingestion.ts';
import type {
  IngestDocumentInput,
  IngestDocumentResult,
  IngestionProgress,
  IngestionStage,
} from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/messages.ts';
import { attemptOfJob, endOfRun, failureOf } from './failure.ts';
import { parking } from './parking.ts';
import { bulk, model, modelSlice, quick, record } from './policies.ts';
import { showStage } from './visibility.ts';

const { parseDocument, convertDocument } = proxyActivities<IngestionActivities>(bulk);
// Chunking by meaning asks the model about every sentence; so does the first look at where chunks stand.
const { situateChunks, chunkDocument } = proxyActivities<IngestionActivities>(model);
const { embedChunks } = proxyActivities<IngestionActivities>(modelSlice);
const { activateGeneration } = proxyActivities<IngestionActivities>(quick);
const { recordParked, recordResumed, recordFailure, recordCancellation } = proxyActivities<IngestionActivities>(record);

const stageQuery = defineQuery<IngestionProgress>(stageQueryName);

/** A vector store that loses points again and again is broken; once may be a crash of its own. */
const embeddingAttempts = 3;

/** Makes one generation of a document readable: all of it, or, when a step fails for good, nothing of it. */
export async function ingestDocument(input: IngestDocumentInput): Promise<IngestDocumentResult> {
  let progress: IngestionProgress = { stage: 'queued', chunksTotal: null };
  setHandler(stageQuery, () => progress);

  const orPark = parking({
    parked: (error) => recordParked({ ...input, error }),
    resumed: () => recordResumed(input),
  });

  function enter(stage: IngestionStage, details: string): void {
    progress = { ...progress, stage };
    showStage(stage, details);
  }

  /** So that between two slices it is the turn of others who wait. */
  async function inSlices(step: () => Promise<{ chunksLeft?: number }>): Promise<void> {
    for (;;) {
      const { chunksLeft = 0 } = await orPark(step);
      if (chunksLeft === 0) return;
    }
  }

  async function embedAndActivate(chunksTotal: number): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      enter('embed', `Embedding ${chunksTotal} chunks; the job's progress says how many are done.`);
      await inSlices(() => embedChunks(input));

      enter('activate', `Making generation ${input.generation} with ${chunksTotal} chunks the one that readers see.`);
      try {
        return await orPark(() => activateGeneration(input));
      } catch (error) {
        if (failureOf(error)?.code !== 'vectors_missing' || attempt === embeddingAttempts) throw error;
      }
    }
  }

  try {
    enter('parse', 'Looking at the original to tell its format.');
    const { sourceFormat, sizeBytes } = await orPark(() => parseDocument(input));

    enter('convert', `Converting ${sizeBytes} bytes of ${sourceFormat} to Markdown.`);
    const { charCount, pageCount, needsContexts } = await orPark(() => convertDocument(input));

    if (needsContexts) {
      enter('situate', "Asking a model where each chunk stands; the job's progress says how many are done.");
      await inSlices(() => situateChunks(input));
    }

    enter('chunk', `Cutting ${charCount} characters${pageCount === null ? '' : ` on ${pageCount} pages`} into chunks.`);
    const { chunksTotal } = await orPark(() => chunkDocument(input));

    progress = { ...progress, chunksTotal };
    await embedAndActivate(chunksTotal);

    progress = { ...progress, stage: 'done' };
    showStage('done', `Done: ${chunksTotal} chunks.`);
    return { chunks: chunksTotal };
  } catch (error) {
    throw await endOfRun(error, {
      cancelled: () => recordCancellation({ ...input, ...attemptOfJob() }),
      failed: (failure) => recordFailure({ ...input, ...attemptOfJob(), error: failure }),
    });
  }
}
