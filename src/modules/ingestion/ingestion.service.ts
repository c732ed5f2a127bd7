import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type {
  AtOnceResult,
  ChunkResult,
  ConvertResult,
  EmbedResult,
  IngestDocumentInput,
  IngestionStage,
  ParseResult,
  RecordIngestionEndInput,
  RecordIngestionFailureInput,
  SituateResult,
  WindowsResult,
} from '#src/contracts/ingestion.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { indexedText } from '#src/domain/documents/chunk-document.ts';
import { charsetOf } from '#src/domain/documents/formats.ts';
import { appError } from '#src/errors.ts';
import type { EmbeddingsService } from '#src/modules/embeddings/embeddings.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { OriginalsService } from '#src/modules/originals/originals.service.ts';
import type { PreviewsService } from '#src/modules/previews/previews.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { Converter, MalwareScanner, Recognition } from '#src/ports/documents.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { chunkId } from './chunk-id.ts';
import type { CutSource, CutStep, DocumentCutterService } from './document-cutter.service.ts';
import { createGenerationChunksRepository } from './generation-chunks.repository.ts';
import { createGenerationCollector } from './generation-collector.ts';
import { ingestAtOnce, type Step } from './ingest-at-once.ts';
import type { ChunkText, IngestionTarget } from './ingestion.model.ts';
import { createIngestionRepository } from './ingestion.repository.ts';
import { createRecognizedPagesRepository } from './recognized-pages.repository.ts';
import type { ConvertedBody, SituationsService } from './situations.service.ts';
import type { WindowEmbedder } from './window-embedder.ts';

/**
 * Texts that are embedded before the engine hears how far the step is: several calls, sorted by length. What a killed
 * run had of them is kept by its texts.
 */
const BATCH_SIZE = 256;
/** What one call of `embed` takes: about half a minute of work, after which it is the turn of others. */
const SLICE_SIZE = 4 * BATCH_SIZE;
/** Pages that are read by OCR before it is the turn of others. */
const OCR_SLICE_MS = 20_000;
const CONVERSIONS_PER_SWEEP = 500;

type ProgressUnit = 'pages' | 'sentences' | 'chunks';

type Stoppable = Pick<Step, 'signal'>;

export type IngestionService = ReturnType<typeof createIngestionService>;

/**
 * The work of `ingestDocument`, one method a step. A step that finds its result stored gives it back; every step throws
 * `superseded` once a newer generation was asked for and `document_not_found` once the document is deleted.
 */
export function createIngestionService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'read' | 'withLocalFile'>;
  /** Null where the deployment has none. */
  scanner: MalwareScanner | null;
  originals: Pick<OriginalsService, 'release'>;
  converter: Converter;
  embeddings: Pick<EmbeddingsService, 'embed' | 'hash'>;
  windows: WindowEmbedder;
  cutter: DocumentCutterService;
  situations: Pick<SituationsService, 'isOn' | 'situate'>;
  previews: Pick<PreviewsService, 'enqueue'>;
  vectors: Pick<VectorStore, 'upsert' | 'publish' | 'fetch' | 'countGenerations' | 'deleteGenerations'>;
  jobs: Pick<JobsService, 'advance' | 'dispatch'>;
  orchestrator: Pick<Orchestrator, 'cancel'>;
}) {
  const { db, blobs, originals, converter, embeddings, windows, cutter, situations, previews } = deps;
  const { scanner, vectors, jobs, orchestrator } = deps;
  const repository = createIngestionRepository(db);
  const chunks = createGenerationChunksRepository(db);
  const recognizedPages = createRecognizedPagesRepository(db);
  const { collect, collectUnneeded } = createGenerationCollector({ originals, vectors, repository });
  const jobIdOf = (of: IngestDocumentInput) => ingestWorkflowId(of.documentId, of.generation);
  /** What most documents never have. */
  const hasOlder = ({ generation }: IngestDocumentInput) => generation > 1;
  const documentDeleted = () => appError('document_not_found', { detail: 'The document was deleted.' });

  async function requireNewest(of: IngestDocumentInput): Promise<IngestionTarget> {
    const target = await repository.findTarget(of);
    if (target?.newestGeneration === of.generation) return target;
    throw (await repository.findStanding(of)) === undefined ? documentDeleted() : appError('superseded');
  }

  async function enter(of: IngestDocumentInput, stage: IngestionStage): Promise<IngestionTarget> {
    const target = await requireNewest(of);
    await jobs.advance(jobIdOf(of), { status: 'running', stage });
    return target;
  }

  /** However its request ended: what it could not stop is stopped before anything is done for the new generation. */
  async function cancelOlderRuns(of: IngestDocumentInput): Promise<void> {
    const older = await repository.listOlderOpenRuns(of);
    await Promise.all(older.map((jobId) => orchestrator.cancel(jobId)));
  }

  /** Points before marks: a mark says that the point is there, and a point without its mark is written again. */
  async function store(
    of: IngestDocumentInput,
    model: string,
    { texts, embedded }: { texts: ChunkText[]; embedded: Float32Array[] },
  ): Promise<number> {
    const { orgId, documentId, generation } = of;
    const points = texts.flatMap(({ id }, index) => {
      const vector = embedded[index];
      return vector === undefined ? [] : [{ id, documentId, generation, vector }];
    });
    await vectors.upsert({ orgId, model, points });
    const ids = texts.map((text) => text.id);
    const chunksEmbedded = await chunks.markEmbedded(of, ids, model);
    if (chunksEmbedded === undefined) {
      // Whoever collects the generation may have been here before these points.
      const isActive = (await repository.findStanding(of))?.activeGeneration === generation;
      if (!isActive) await vectors.deleteGenerations({ orgId, documentId, from: generation, before: generation + 1 });
      throw appError('superseded');
    }
    return chunksEmbedded;
  }

  /** So that embedding makes them again: a mark that has no point would be believed for ever. */
  async function unmarkLostPoints(of: IngestDocumentInput, model: string): Promise<void> {
    const marked = await chunks.listEmbedded(of);
    for (let start = 0; start < marked.length; start += BATCH_SIZE) {
      const chunkIds = marked.slice(start, start + BATCH_SIZE);
      const stored = await vectors.fetch({ orgId: of.orgId, model, chunkIds });
      await chunks.unmarkEmbedded(
        of,
        chunkIds.filter((id) => !stored.has(id)),
      );
    }
  }

  async function readSource(of: IngestDocumentInput, target: IngestionTarget): Promise<CutSource & ConvertedBody> {
    const { conversionId, documentName, ragConfig } = target;
    const converted = conversionId === null ? undefined : await repository.readBody(of.orgId, conversionId);
    if (conversionId === null || converted === undefined) {
      throw appError('internal_error', { detail: 'The document was not converted yet.' });
    }
    return { orgId: of.orgId, conversionId, documentName, chunking: ragConfig.chunking, ...converted };
  }

  /** Before anything reads it. Throws `malware_found`; then nobody gets it any more, either. */
  async function requireClean(orgId: string, target: IngestionTarget, signal: AbortSignal): Promise<void> {
    if (scanner === null) return;
    const { blobKey, contentSha256: sha256 } = target;
    const signature = await scanner.scan(await blobs.read(blobKey), signal);
    await repository.noteMalware({ orgId, blobKey, sha256, signature });
    if (signature !== null) throw appError('malware_found', { detail: `The malware scanner found ${signature}.` });
  }

  /** From here on it can be shown, too: once for each time that the generation comes to a conversion. */
  async function takeConversion(of: IngestDocumentInput, conversionId: string, format: string): Promise<void> {
    const previewJobId = await db.transaction(async (trx) => {
      const isNew = await createIngestionRepository(trx).setConversion(of, conversionId);
      return isNew ? previews.enqueue(trx, of, format) : null;
    });
    if (previewJobId !== null) await jobs.dispatch(previewJobId);
  }

  /** What `embedWindows` did, or a run that was interrupted, is found in the organization's cache. */
  const cutStep = ({ orgId }: IngestDocumentInput, { ragConfig }: IngestionTarget, step: Step): CutStep => ({
    ...step,
    orgId,
    embed: (windows) => embeddings.embed({ orgId, model: ragConfig.embedding.model }, windows, { signal: step.signal }),
  });

  /** Figures that come at once are told one after the other, so that none is overtaken by an earlier one. */
  function inOrder(of: IngestDocumentInput, unit: ProgressUnit) {
    let told: Promise<void> = Promise.resolve();
    return (done: number, total: number | null): Promise<void> => {
      told = told.then(() => jobs.advance(jobIdOf(of), { progress: { done, total, unit } }));
      return told;
    };
  }

  /** Tells clients and the engine how far a step is. */
  const counting = (of: IngestDocumentInput, unit: ProgressUnit, { signal, report }: Step) => {
    const tell = inOrder(of, unit);
    return {
      signal,
      report: async (done: number, total: number): Promise<void> => {
        await tell(done, total);
        report({ [unit]: done });
      },
    };
  };

  /** A killed worker repeats the page that it was reading. */
  async function recognitionOf(of: IngestDocumentInput, converterVersion: string, step: Step): Promise<Recognition> {
    const key = { ...of, converterVersion };
    const progress = counting(of, 'pages', step);
    return {
      known: await recognizedPages.list(key),
      sliceMs: OCR_SLICE_MS,
      keep: async (page, { done, total }) => {
        await recognizedPages.insert(key, page);
        await progress.report(done, total);
      },
    };
  }

  /** What a newer generation, or a deletion, took over did not fail: it was given up. */
  async function endFromOutside(
    of: IngestDocumentInput,
  ): Promise<{ status: 'cancelled'; error: { code: string; message: string } } | undefined> {
    const standing = await repository.findStanding(of);
    if (standing?.newestGeneration === of.generation) return undefined;
    const { code, message } = standing === undefined ? documentDeleted() : appError('superseded');
    return { status: 'cancelled', error: { code, message } };
  }

  const steps = {
    /**
     * Stops runs of older generations, takes away what no reader sees any more, lets a scanner look into the original,
     * and tells its format by content.
     */
    async parse(of: IngestDocumentInput, { signal }: Stoppable): Promise<ParseResult> {
      const target = await enter(of, 'parse');
      if (hasOlder(of)) {
        await cancelOlderRuns(of);
        await collectUnneeded(of, signal);
      }

      await requireClean(of.orgId, target, signal);
      const { blobKey, fileName, mediaType, sizeBytes } = target;
      const declaredMediaType = mediaType === null ? {} : { declaredMediaType: mediaType };
      const sourceFormat =
        target.sourceFormat ??
        target.declaredFormat ??
        (await blobs.withLocalFile(blobKey, (path) => converter.detect({ path, fileName, ...declaredMediaType })));
      await repository.setSourceFormat(of, sourceFormat);
      return { sourceFormat, sizeBytes };
    },

    /**
     * Makes the Markdown body, or finds that the organization has converted this content before. Of pages that are
     * pictures it reads a slice; there is a body once `pagesLeft` is not told any more.
     */
    async convert(of: IngestDocumentInput, { signal, report }: Step): Promise<ConvertResult> {
      const { blobKey, fileName, mediaType, contentSha256, ...target } = await enter(of, 'convert');
      const { sourceFormat: format, ragConfig } = target;
      if (format === null) throw appError('internal_error', { detail: 'The format of the document is not known yet.' });
      const encoding = charsetOf(mediaType ?? '');
      // The same bytes are another text in another encoding.
      const converterVersion = encoding === undefined ? converter.version : `${converter.version} ${encoding}`;
      const key = { orgId: of.orgId, contentSha256, converterVersion, sourceFormat: format };

      const known = await repository.findConversion(key);
      if (known === undefined) {
        const recognition = await recognitionOf(of, converterVersion, { signal, report });
        const { body, title, pageMap, pageCount, pagesLeft } = await blobs.withLocalFile(blobKey, (path) =>
          converter.convert({
            orgId: of.orgId,
            path,
            fileName,
            format,
            encoding,
            signal,
            onProgress: report,
            recognition,
          }),
        );
        if (pagesLeft > 0) return { charCount: 0, pageCount: null, reused: false, pagesLeft };
        if (body.trim() === '') throw appError('empty_document');
        signal.throwIfAborted();
        await repository.insertConversion({ ...key, id: uuidv7(), body, title, pageMap, pageCount });
        if (pageMap !== null) await recognizedPages.deleteAll(of);
      }
      const conversion = known ?? (await repository.findConversion(key));
      if (conversion === undefined) throw appError('internal_error', { detail: 'The conversion was not stored.' });
      await takeConversion(of, conversion.id, format);
      const { charCount, pageCount } = conversion;
      return {
        charCount,
        pageCount,
        reused: known !== undefined,
        ...(ragConfig.chunking.method === 'semantic' && { needsWindows: true }),
        ...(situations.isOn && { needsContexts: true }),
      };
    },

    /** Embeds a slice of what a cut by meaning compares: whoever cuts the document finds it in the cache. */
    async embedWindows(of: IngestDocumentInput, step: Step): Promise<WindowsResult> {
      const target = await enter(of, situations.isOn ? 'situate' : 'chunk');
      if (target.chunksTotal !== null) return { windowsEmbedded: 0, windowsLeft: 0 };
      const by = { orgId: of.orgId, model: target.ragConfig.embedding.model };
      const source = await readSource(of, target);
      const { total, left } = await windows.embedSlice(source, by, counting(of, 'sentences', step));
      return { windowsEmbedded: total - left, windowsLeft: left };
    },

    /** Lets a model say of a slice of the chunks where they stand in the document, before they are stored with it. */
    async situate(of: IngestDocumentInput, step: Step): Promise<SituateResult> {
      const target = await enter(of, 'situate');
      if (target.chunksTotal !== null) return { chunksSituated: target.chunksTotal, chunksLeft: 0 };
      const source = await readSource(of, target);
      const cut = await cutter.cut(source, cutStep(of, target, step));
      const { total, left } = await situations.situate(source, cut, counting(of, 'chunks', step));
      return { chunksSituated: total - left, chunksLeft: left };
    },

    /** Cuts the body into chunks and indexes their words; all of it in one transaction. */
    async chunk(of: IngestDocumentInput, step: Step): Promise<ChunkResult> {
      const target = await enter(of, 'chunk');
      if (target.chunksTotal !== null) return { chunksTotal: target.chunksTotal };
      const source = await readSource(of, target);
      const cut = await cutter.cutSituated(source, cutStep(of, target, step));
      const made = cut.map((chunk) => ({
        ...chunk,
        id: chunkId(of, chunk.index),
        textSha256: embeddings.hash(indexedText(chunk)),
      }));
      if (made.length === 0) throw appError('empty_document');
      step.signal.throwIfAborted();

      return db.transaction(async (trx) => {
        const own = createIngestionRepository(trx);
        const generation = await own.lockNewest(of);
        if (generation === undefined) throw appError('superseded');
        if (generation.chunksTotal !== null) return { chunksTotal: generation.chunksTotal };
        await createGenerationChunksRepository(trx).insert(of, made);
        if (source.pageMap === null) await own.numberPages(of.orgId, source.conversionId);
        await own.setChunked(of, made.length);
        return { chunksTotal: made.length };
      });
    },

    /**
     * A slice of the chunks, from where Postgres says that the last one stopped. One batch is written while the next is
     * embedded.
     */
    async embed(of: IngestDocumentInput, { signal, report }: Step): Promise<EmbedResult> {
      const { chunksTotal, ragConfig } = await requireNewest(of);
      const { model } = ragConfig.embedding;
      const [waiting, embeddedBefore] = await Promise.all([
        chunks.listUnembedded(of, SLICE_SIZE),
        chunks.countEmbedded(of),
      ]);
      let done = embeddedBefore;
      const tell = inOrder(of, 'chunks');
      const showDone = async (count: number) => {
        // What is being stored is behind what is being embedded.
        if (count <= done) return;
        done = count;
        await tell(done, chunksTotal);
      };
      await jobs.advance(jobIdOf(of), {
        status: 'running',
        stage: 'embed',
        progress: { done: embeddedBefore, total: chunksTotal, unit: 'chunks' },
      });

      const embedBatch = async (start: number) => {
        const texts = await chunks.readTexts(of.orgId, waiting.slice(start, start + BATCH_SIZE));
        const embedded = await embeddings.embed({ orgId: of.orgId, model }, texts.map(indexedText), {
          signal,
          onProgress: (count) => showDone(embeddedBefore + start + count),
        });
        return { texts, embedded };
      };
      const storeBatch = async (batch: Awaited<ReturnType<typeof embedBatch>>) => {
        signal.throwIfAborted();
        const chunksEmbedded = await store(of, model, batch);
        await showDone(chunksEmbedded);
        report({ chunksEmbedded });
      };

      let writing: Promise<void> = Promise.resolve();
      try {
        for (let start = 0; start < waiting.length; start += BATCH_SIZE) {
          const [batch] = await Promise.all([embedBatch(start), writing]);
          writing = storeBatch(batch);
        }
        await writing;
      } finally {
        // Nothing is written after the end of the step, however it ends.
        await writing.catch(() => undefined);
      }
      const chunksEmbedded = await chunks.countEmbedded(of);
      return { chunksEmbedded, chunksLeft: (chunksTotal ?? 0) - chunksEmbedded };
    },

    /**
     * Makes this generation the one that readers see, once all of it is there; then collects the older ones. Throws
     * `vectors_missing` when it is not: embedding again mends that.
     */
    async activate(of: IngestDocumentInput, { signal }: Stoppable): Promise<void> {
      const { chunksTotal, ragConfig } = await enter(of, 'activate');
      const [embedded, [stored = 0]] = await Promise.all([chunks.countEmbedded(of), vectors.countGenerations([of])]);
      if (embedded !== chunksTotal || stored !== chunksTotal) {
        await unmarkLostPoints(of, ragConfig.embedding.model);
        const detail = `Of ${chunksTotal} chunks ${embedded} are embedded and ${stored} are in the vector store.`;
        throw appError('vectors_missing', { detail });
      }
      for (let isActive = false; !isActive; ) {
        const publication = await repository.findPublication(of);
        if (publication === undefined) throw appError('superseded');
        await vectors.publish({ ...of, ...publication });
        isActive = await db.transaction((trx) => createIngestionRepository(trx).activate(of, publication));
      }
      if (hasOlder(of)) {
        await collect({ orgId: of.orgId, documentId: of.documentId, from: 0, before: of.generation }, signal);
      }
      await jobs.advance(jobIdOf(of), { status: 'succeeded' });
    },

    async recordParked({ error, ...of }: RecordIngestionFailureInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'parked', error });
    },

    async recordResumed(of: IngestDocumentInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'running' });
    },

    async recordFailure(input: RecordIngestionFailureInput, { signal }: Stoppable): Promise<void> {
      const { error, attempt, startId, ...of } = input;
      const end = (await endFromOutside(of)) ?? ({ status: 'failed', error } as const);
      await jobs.advance(jobIdOf(of), end, { attempt, startId });
      await collectUnneeded(of, signal);
    },

    async recordCancellation(input: RecordIngestionEndInput, { signal }: Stoppable): Promise<void> {
      const { attempt, startId, ...of } = input;
      const end = (await endFromOutside(of)) ?? ({ status: 'cancelled' } as const);
      await jobs.advance(jobIdOf(of), end, { attempt, startId });
      await collectUnneeded(of, signal);
    },

    /** Forgets some of the conversions that no document has used for a day. @returns null once there are no more */
    async sweepUnusedConversions(): Promise<true | null> {
      const deleted = await repository.deleteUnusedConversions(CONVERSIONS_PER_SWEEP);
      return deleted === CONVERSIONS_PER_SWEEP ? true : null;
    },
  };

  return {
    ...steps,

    /** All of a small document, in one go. */
    atOnce: (of: IngestDocumentInput, step: Step): Promise<AtOnceResult> => ingestAtOnce(steps, of, step),
  };
}
