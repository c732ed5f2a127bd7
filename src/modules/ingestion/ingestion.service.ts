import type { Knex } from 'knex';
import { v5 as uuidv5 } from 'uuid';
import type {
  ActivateGenerationInput,
  ChunkResult,
  ConvertResult,
  EmbedResult,
  EmbedWindowsResult,
  IngestAtOnceResult,
  IngestDocumentInput,
  IngestionStage,
  ParseResult,
  RecordIngestionEndInput,
  RecordIngestionFailureInput,
  SituateChunksResult,
} from '#src/contracts/ingestion.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { indexedTextOfChunk } from '#src/domain/documents/chunk-document.ts';
import { isSlowFormat, maxChunksOfSmallDocument, type RagConfig } from '#src/domain/documents/rag-config.ts';
import { appError } from '#src/errors.ts';
import type { EmbeddingsService } from '#src/modules/embeddings/embeddings.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { OriginalFilesService } from '#src/modules/originals/originals.service.ts';
import type { PreviewsService } from '#src/modules/previews/previews.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { DocumentConverter, LanguageDetector, MalwareScanner } from '#src/ports/documents.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import type { ChunkContextsService, DocumentChunkerService, DocumentChunkingOptions } from './chunking.service.ts';
import { createChunksRepository } from './chunks.repository.ts';
import { createDocumentConversion } from './conversion.ts';
import { createChunkEmbedding } from './embedding.ts';
import { createConversionsRepository, createGenerationsRepository } from './generations.repository.ts';
import type { DocumentGenerationRange, DocumentReference, IngestionTarget } from './ingestion.model.ts';

const CONVERSIONS_PER_SWEEP = 500;

type Report = (details: unknown) => void;

type Step = { signal: AbortSignal; report: Report };

type Cancellable = Pick<Step, 'signal'>;

type ProgressUnit = 'pages' | 'sentences' | 'chunks';

type Archive = { blobKey: string; jobId: string; chunking: RagConfig['chunking'] };

export type IngestionService = ReturnType<typeof createIngestionService>;

/**
 * The steps of the workflow `ingestDocument`, one method each. A step whose result is already stored returns that
 * result. Every step throws `superseded` once a newer generation was requested, and `document_not_found` once the
 * document is deleted.
 */
export function createIngestionService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'read' | 'withLocalFile'>;
  scanner: MalwareScanner | null;
  originals: Pick<OriginalFilesService, 'release'>;
  converter: DocumentConverter;
  detectLanguage: LanguageDetector;
  embeddings: Pick<EmbeddingsService, 'embed' | 'hash'>;
  documentChunker: DocumentChunkerService;
  chunkContexts: Pick<ChunkContextsService, 'isOn' | 'generate'>;
  previews: Pick<PreviewsService, 'enqueue'>;
  vectors: Pick<VectorStore, 'upsert' | 'publish' | 'fetch' | 'countGenerations' | 'deleteGenerations'>;
  jobs: Pick<JobsService, 'advance' | 'dispatch'>;
  orchestrator: Pick<Orchestrator, 'cancel'>;
}) {
  const { db, originals, detectLanguage, embeddings, documentChunker, chunkContexts, vectors, jobs, orchestrator } =
    deps;
  const generations = createGenerationsRepository(db);
  const conversions = createConversionsRepository(db);
  const conversion = createDocumentConversion(deps);
  const embedding = createChunkEmbedding(deps);

  const steps = {
    /**
     * Cancels runs of older generations, and deletes the older generations that readers do not see. Then scans the
     * original for malware and detects its format by content.
     */
    async parse(of: IngestDocumentInput, { signal }: Cancellable): Promise<ParseResult> {
      const target = await enter(of, 'parse');
      if (hasOlder(of)) {
        await cancelOlderRuns(of);
        await deleteUnneeded(of, signal);
      }
      await conversion.requireClean(of.orgId, target, signal);
      const sourceFormat = await conversion.detectFormat(of, target);
      return { sourceFormat, sizeBytes: target.sizeBytes };
    },

    /**
     * Finds the archive whose files this generation has to import. Null if an earlier generation has imported them:
     * ingesting again with other settings must not bring back documents that users have deleted.
     */
    async findArchive(of: IngestDocumentInput): Promise<Archive | null> {
      const { blobKey, ragConfig } = await enter(of, 'convert');
      if (await generations.isContentActive(of)) return null;
      return { blobKey, jobId: jobIdOf(of), chunking: ragConfig.chunking };
    },

    async convert(of: IngestDocumentInput, step: Step): Promise<ConvertResult> {
      const target = await enter(of, 'convert');
      const onPage = withJobProgress(of, 'pages', step).report;
      const result = await conversion.convert(of, target, { ...step, onPage });
      if (result.pagesLeft !== undefined) return result;
      return {
        ...result,
        ...(target.ragConfig.chunking.method === 'semantic' && { needsWindows: true }),
        ...(chunkContexts.isOn && { needsContexts: true }),
      };
    },

    async embedWindows(of: IngestDocumentInput, step: Step): Promise<EmbedWindowsResult> {
      const target = await enter(of, chunkContexts.isOn ? 'situate' : 'chunk');
      if (target.chunksTotal !== null) return { windowsEmbedded: 0, windowsLeft: 0 };
      const by = { orgId: of.orgId, model: target.ragConfig.embedding.model };
      const source = await conversion.readSource(of, target);
      const { total, left } = await documentChunker.embedWindows(source, by, withJobProgress(of, 'sentences', step));
      return { windowsEmbedded: total - left, windowsLeft: left };
    },

    async situate(of: IngestDocumentInput, step: Step): Promise<SituateChunksResult> {
      const target = await enter(of, 'situate');
      if (target.chunksTotal !== null) return { chunksSituated: target.chunksTotal, chunksLeft: 0 };
      const source = await conversion.readSource(of, target);
      const chunks = await documentChunker.chunk(source, chunkingStep(of, target, step));
      const { total, left } = await chunkContexts.generate(source, chunks, withJobProgress(of, 'chunks', step));
      return { chunksSituated: total - left, chunksLeft: left };
    },

    async chunk(of: IngestDocumentInput, step: Step): Promise<ChunkResult> {
      const target = await enter(of, 'chunk');
      if (target.chunksTotal !== null) return { chunksTotal: target.chunksTotal };
      const source = await conversion.readSource(of, target);
      const language = await detectLanguage(source.body);
      const chunks = await documentChunker.chunkWithContexts({ ...source, language }, chunkingStep(of, target, step));
      const newChunks = chunks.map((chunk) => ({
        ...chunk,
        id: deriveChunkId(of, chunk.index),
        textSha256: embeddings.hash(indexedTextOfChunk(chunk)),
      }));
      if (newChunks.length === 0) throw appError('empty_document');
      step.signal.throwIfAborted();

      return db.transaction(async (trx) => {
        const ownGenerations = createGenerationsRepository(trx);
        const generation = await ownGenerations.lockNewest(of);
        if (generation === undefined) throw appError('superseded');
        if (generation.chunksTotal !== null) return { chunksTotal: generation.chunksTotal };
        await createChunksRepository(trx).insert(of, newChunks);
        if (source.pageMap === null) {
          await createConversionsRepository(trx).assignPageNumbers(of.orgId, source.conversionId);
        }
        await ownGenerations.setChunked(of, { chunksTotal: newChunks.length, language });
        return { chunksTotal: newChunks.length };
      });
    },

    async embed(of: IngestDocumentInput, step: Step): Promise<EmbedResult> {
      const target = await requireNewest(of);
      const slice = await embedding.nextSlice(of);
      const total = target.chunksTotal;
      await jobs.advance(jobIdOf(of), {
        status: 'running',
        stage: 'embed',
        progress: { done: slice.embeddedBefore, total, unit: 'chunks' },
      });
      const progress = progressWriter(of, 'chunks');
      const onProgress = (done: number) => progress.write(done, total);
      const result = await embedding.embedSlice(of, target, slice, { ...step, onProgress });
      const expectedSeconds = progress.expectedSeconds();
      return { ...result, ...(result.chunksLeft && expectedSeconds !== undefined && { expectedSeconds }) };
    },

    /**
     * Makes a complete generation visible to readers, then deletes the older generations. Throws `vectors_missing` if
     * the vector store has lost vectors; running the `embed` step again restores them.
     */
    async activate({ note, ...of }: ActivateGenerationInput, { signal }: Cancellable): Promise<void> {
      const target = await enter(of, 'activate');
      await embedding.requireComplete(of, target);
      for (let isActive = false; !isActive; ) {
        const publication = await generations.findPublication(of);
        if (publication === undefined) throw appError('superseded');
        await vectors.publish({ ...of, ...publication });
        isActive = await db.transaction((trx) => createGenerationsRepository(trx).activate(of, publication));
      }
      if (hasOlder(of)) {
        await deleteGenerations({ orgId: of.orgId, documentId: of.documentId, from: 0, before: of.generation }, signal);
      }
      await jobs.advance(jobIdOf(of), { status: 'succeeded', ...(note && { error: note }) });
    },
  };

  return {
    ...steps,

    /**
     * Runs all steps of a small document in one activity. Stops early if the document needs a slow step; the workflow
     * then runs the remaining steps one by one.
     */
    async atOnce(
      of: IngestDocumentInput,
      { signal, note }: Cancellable & { note: Report },
    ): Promise<IngestAtOnceResult> {
      // Reports only what timed heartbeats take along: a heartbeat costs Temporal more than some of these steps.
      const step: Step = { signal, report: note };
      note({ stage: 'parse' });
      const { sourceFormat } = await steps.parse(of, step);
      if (isSlowFormat(sourceFormat)) return { converted: null, chunksTotal: null, isDone: false };
      note({ stage: 'convert' });
      const converted = await steps.convert(of, step);
      if (converted.pagesLeft !== undefined) return { converted: null, chunksTotal: null, isDone: false };
      if (converted.needsWindows || converted.needsContexts) return { converted, chunksTotal: null, isDone: false };
      note({ stage: 'chunk' });
      const { chunksTotal } = await steps.chunk(of, step);
      if (chunksTotal > maxChunksOfSmallDocument) return { converted, chunksTotal, isDone: false };
      note({ stage: 'embed' });
      const { chunksLeft = 0 } = await steps.embed(of, step);
      if (chunksLeft > 0) return { converted, chunksTotal, isDone: false };
      note({ stage: 'activate' });
      await steps.activate(of, step);
      return { converted, chunksTotal, isDone: true };
    },

    async recordParked({ error, ...of }: RecordIngestionFailureInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'parked', error });
    },

    async recordResumed(of: IngestDocumentInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'running' });
    },

    async recordFailure(input: RecordIngestionFailureInput, { signal }: Cancellable): Promise<void> {
      const { error, attempt, startId, ...of } = input;
      const end = (await supersededEnd(of)) ?? ({ status: 'failed', error } as const);
      await jobs.advance(jobIdOf(of), end, { attempt, startId });
      await deleteUnneeded(of, signal);
    },

    async recordCancellation(input: RecordIngestionEndInput, { signal }: Cancellable): Promise<void> {
      const { attempt, startId, ...of } = input;
      const end = (await supersededEnd(of)) ?? ({ status: 'cancelled' } as const);
      await jobs.advance(jobIdOf(of), end, { attempt, startId });
      await deleteUnneeded(of, signal);
    },

    /** Deletes a batch of conversions unused for a day. `next` is null after the last batch. */
    async sweepUnusedConversions(): Promise<{ deleted: number; next: true | null }> {
      const deleted = await conversions.deleteUnused(CONVERSIONS_PER_SWEEP);
      return { deleted, next: deleted === CONVERSIONS_PER_SWEEP || null };
    },
  };

  async function enter(of: IngestDocumentInput, stage: IngestionStage): Promise<IngestionTarget> {
    const target = await requireNewest(of);
    await jobs.advance(jobIdOf(of), { status: 'running', stage });
    return target;
  }

  async function requireNewest(of: IngestDocumentInput): Promise<IngestionTarget> {
    const target = await generations.findTarget(of);
    if (target?.newestGeneration === of.generation) return target;
    throw (await generations.findDocumentState(of)) === undefined ? documentDeleted() : appError('superseded');
  }

  /** Returns `cancelled` for a run that was superseded or whose document was deleted; else undefined. */
  async function supersededEnd(
    of: IngestDocumentInput,
  ): Promise<{ status: 'cancelled'; error: { code: string; message: string } } | undefined> {
    const state = await generations.findDocumentState(of);
    if (state?.newestGeneration === of.generation) return undefined;
    const { code, message } = state === undefined ? documentDeleted() : appError('superseded');
    return { status: 'cancelled', error: { code, message } };
  }

  /**
   * Cancels runs of older generations again: the request that opened this generation may have failed to reach Temporal.
   */
  async function cancelOlderRuns(of: IngestDocumentInput): Promise<void> {
    const older = await generations.listOlderOpenRuns(of);
    await Promise.all(older.map((jobId) => orchestrator.cancel(jobId)));
  }

  async function deleteUnneeded({ orgId, documentId }: DocumentReference, signal: AbortSignal): Promise<void> {
    for (const from of await generations.listUnneeded({ orgId, documentId })) {
      await deleteGenerations({ orgId, documentId, from, before: from + 1 }, signal);
    }
  }

  /** Deletes generations from every store; their rows last, so that a retry still finds them. */
  async function deleteGenerations(range: DocumentGenerationRange, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    await vectors.deleteGenerations(range);
    for (const blobKey of await generations.listBlobKeys(range)) {
      signal.throwIfAborted();
      await originals.release({ orgId: range.orgId, blobKey });
    }
    await generations.delete(range, signal);
  }

  /**
   * Chunking options with the organization's embedding cache, so that sentences which an earlier step or an interrupted
   * run has embedded are not embedded again.
   */
  function chunkingStep(
    { orgId }: IngestDocumentInput,
    { ragConfig }: IngestionTarget,
    step: Step,
  ): DocumentChunkingOptions {
    const by = { orgId, model: ragConfig.embedding.model };
    return { ...step, orgId, embed: (windows) => embeddings.embed(by, windows, { signal: step.signal }) };
  }

  function withJobProgress(of: IngestDocumentInput, unit: ProgressUnit, { signal, report }: Step) {
    const { write } = progressWriter(of, unit);
    return {
      signal,
      report: async (done: number, total: number): Promise<void> => {
        await write(done, total);
        report({ [unit]: done });
      },
    };
  }

  /**
   * Lets progress updates of concurrent callers take turns, so that an older number never overwrites a newer one. The
   * expected time follows from the rate since the first update.
   */
  function progressWriter(of: IngestDocumentInput, unit: ProgressUnit) {
    let written: Promise<void> = Promise.resolve();
    let first: { done: number; at: number } | undefined;
    let expectedSeconds: number | undefined;
    return {
      write(done: number, total: number | null): Promise<void> {
        const at = performance.now();
        first ??= { done, at };
        if (total !== null && done > first.done)
          expectedSeconds = Math.ceil(((at - first.at) / 1_000 / (done - first.done)) * (total - done));
        const progress = { done, total, unit, expectedSeconds };
        written = written.then(() => jobs.advance(jobIdOf(of), { progress }));
        return written;
      },
      expectedSeconds: () => expectedSeconds,
    };
  }
}

/**
 * Derives a chunk's id from its position and not from its text, so that a repeated step finds its own rows and points.
 */
export function deriveChunkId(of: IngestDocumentInput, index: number): string {
  return uuidv5(`${of.generation}:${index}`, of.documentId);
}

const jobIdOf = (of: IngestDocumentInput) => ingestWorkflowId(of.documentId, of.generation);

const hasOlder = ({ generation }: IngestDocumentInput) => generation > 1;

const documentDeleted = () => appError('document_not_found', { detail: 'The document was deleted.' });
