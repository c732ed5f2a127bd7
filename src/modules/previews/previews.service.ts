import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Knex } from 'knex';
import type {
  AlignPagesResult,
  PreviewDocumentInput,
  PreviewStage,
  RecordPreviewEndInput,
  RecordPreviewFailureInput,
  RenderPreviewResult,
} from '#src/contracts/ingestion.ts';
import { subjectInSummary } from '#src/contracts/jobs.ts';
import { previewWorkflowId } from '#src/contracts/workflow-ids.ts';
import { isOfficeFormat } from '#src/domain/documents/formats.ts';
import { alignPages } from '#src/domain/documents/pages.ts';
import { AppError, appError } from '#src/errors.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { OriginalFilesService } from '#src/modules/originals/originals.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { DocumentConverter, PdfRenderer } from '#src/ports/documents.ts';
import { makeTemporaryFolder } from '#src/temporary-folders.ts';
import { createPreviewsRepository, type Preview } from './previews.model.ts';

/** Size limit of a rendered PDF, far above usual sizes; a larger PDF is an error. */
const LIMIT_BYTES = 1024 ** 3;

const jobIdOf = ({ documentId, generation }: PreviewDocumentInput): string => previewWorkflowId(documentId, generation);

export type PreviewsService = ReturnType<typeof createPreviewsService>;

/**
 * Activities of the workflow `previewDocument`: renders an office file to PDF, and finds the page numbers of its chunks
 * in the PDF. Runs in parallel to the ingestion, which neither waits for it nor fails with it.
 */
export function createPreviewsService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'withLocalFile' | 'exists'>;
  originals: Pick<OriginalFilesService, 'store' | 'settle' | 'discard' | 'hold' | 'scheduleRelease' | 'releaseNow'>;
  renderer: PdfRenderer | null;
  converter: Pick<DocumentConverter, 'readPages'>;
  jobs: Pick<JobsService, 'enqueue' | 'advance'>;
  limits: Pick<TierLimitsService, 'of'>;
  tempDir: string;
}) {
  const { db, blobs, originals, renderer, converter, jobs, limits, tempDir } = deps;
  const repository = createPreviewsRepository(db);

  const startStage = (of: PreviewDocumentInput, stage: PreviewStage): Promise<void> =>
    jobs.advance(jobIdOf(of), { status: 'running', stage });

  /** Finds the stored preview if it is of the current renderer version and its PDF still exists. */
  async function findCurrent(orgId: string, originalKey: string): Promise<Preview | undefined> {
    const preview = await repository.find({ orgId, originalKey });
    if (preview === undefined || preview.rendererVersion !== renderer?.version) return undefined;
    return (await blobs.exists(preview.blobKey)) ? preview : undefined;
  }

  /** Throws if the PDF is broken. Accepts a PDF that takes too long to read: it is shown without page numbers. */
  async function requireReadable(pdf: { orgId: string; path: string; signal: AbortSignal }): Promise<void> {
    try {
      await converter.readPages(pdf);
    } catch (error) {
      if (!(error instanceof AppError && (error.code === 'too_large' || error.code === 'conversion_timeout'))) {
        throw error;
      }
    }
  }

  /**
   * Checks the storage quota of previews. It is as large as that of documents but separate, because a small file may
   * have a large PDF.
   */
  async function requireQuota(of: { orgId: string; originalKey: string }, sizeBytes: number): Promise<void> {
    const { storageBytes } = await limits.of(of.orgId);
    if ((await repository.bytesOfOthers(of)) + sizeBytes <= storageBytes) return;
    const detail = `Previews of an organization may take at most ${storageBytes} bytes.`;
    throw appError('storage_quota_exceeded', { detail });
  }

  /** Stores a rendered PDF. Returns false, without storing it, if the original was deleted meanwhile. */
  async function store(orgId: string, originalKey: string, rendererVersion: string, pdfPath: string): Promise<boolean> {
    const file = await originals.store({ orgId, content: createReadStream(pdfPath), limitBytes: LIMIT_BYTES });
    const { blobKey, sha256, sizeBytes } = file;
    try {
      const replaced = await db.transaction(async (trx) => {
        if (!(await originals.hold(trx, { orgId, blobKey: originalKey }))) return null;
        const made = { orgId, originalKey, rendererVersion, blobKey, sha256, sizeBytes };
        const before = await createPreviewsRepository(trx).upsert(made);
        await originals.settle(trx, file);
        const replaced = before === undefined ? [] : [{ orgId, blobKey: before.blobKey }];
        for (const old of replaced) await originals.scheduleRelease(trx, old);
        return replaced;
      });
      if (replaced === null) await originals.discard(file);
      for (const old of replaced ?? []) await originals.releaseNow(old);
      return replaced !== null;
    } catch (error) {
      await originals.discard(file);
      throw error;
    }
  }

  return {
    /**
     * Inserts the job that renders the preview of an office file. Returns the job's id, to dispatch after the commit;
     * null if the document gets no preview.
     */
    async enqueue(trx: Knex, of: PreviewDocumentInput, sourceFormat: string): Promise<string | null> {
      if (renderer === null || !isOfficeFormat(sourceFormat)) return null;
      const request = await createPreviewsRepository(trx).findRequest(of);
      if (request === undefined) return null;
      const { orgId, documentId, generation } = of;
      const input = { orgId, documentId, generation };
      const summary = `Render the preview of ${subjectInSummary}`;
      const start = { workflow: 'previewDocument', input, summary, bulk: true } as const;
      await jobs.enqueue(trx, { id: jobIdOf(of), kind: 'preview', orgId, documentId, start, ...request });
      return jobIdOf(of);
    },

    async render(of: PreviewDocumentInput, { signal }: { signal: AbortSignal }): Promise<RenderPreviewResult> {
      await startStage(of, 'render');
      const target = await repository.findTarget(of);
      if (target === undefined) return null;
      const { blobKey: originalKey, sourceFormat: format } = target;
      const known = await findCurrent(of.orgId, originalKey);
      if (known !== undefined) return { sizeBytes: known.sizeBytes, reused: true };
      if (renderer === null || !isOfficeFormat(format)) throw appError('converter_unavailable');

      const folder = await makeTemporaryFolder(tempDir, 'preview');
      try {
        const pdfPath = join(folder, 'preview.pdf');
        await blobs.withLocalFile(originalKey, (path) => renderer.render({ path, format, pdfPath, signal }));
        signal.throwIfAborted();
        await requireReadable({ orgId: of.orgId, path: pdfPath, signal });
        await requireQuota({ orgId: of.orgId, originalKey }, (await stat(pdfPath)).size);
        if (!(await store(of.orgId, originalKey, renderer.version, pdfPath))) return null;
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
      const made = await repository.find({ orgId: of.orgId, originalKey });
      return made === undefined ? null : { sizeBytes: made.sizeBytes, reused: false };
    },

    /**
     * Finds where the pages of the rendered PDF begin in the converted text. Skips formats whose text has pages
     * already, such as slides.
     */
    async alignPages(of: PreviewDocumentInput, { signal }: { signal: AbortSignal }): Promise<AlignPagesResult> {
      await startStage(of, 'pages');
      const target = await repository.findTarget(of);
      if (target === undefined || target.conversionId === null) return null;
      const { blobKey: originalKey, conversionId } = target;
      const [converted, preview] = await Promise.all([
        repository.readBody(of.orgId, conversionId),
        repository.find({ orgId: of.orgId, originalKey }),
      ]);
      if (converted === undefined || preview === undefined) return null;
      if (converted.pageMap !== null) return { pageCount: converted.pageMap.length };
      const pages = await blobs.withLocalFile(preview.blobKey, (path) =>
        converter.readPages({ orgId: of.orgId, path, signal }),
      );
      const pageMap = alignPages(converted.body, pages);
      await db.transaction((trx) => createPreviewsRepository(trx).setPages(of.orgId, conversionId, pageMap));
      return { pageCount: pageMap.length };
    },

    /** Returns the preview of a document. Throws `preview_not_found` with the reason why there is none. */
    async get(document: { orgId: string; id: string; blobKey: string; sourceFormat: string | null }): Promise<Preview> {
      const { orgId, blobKey: originalKey, sourceFormat } = document;
      const preview = await repository.find({ orgId, originalKey });
      if (preview !== undefined) return preview;
      if (!isOfficeFormat(sourceFormat)) throw missing('Only office files have previews.');
      const original = { orgId, documentId: document.id, originalKey };
      const job = await repository.findJob(original);
      // Previews are rendered only by workers, so a missing renderer in this process explains a missing preview only if
      // there is no preview job.
      if (job === undefined && renderer === null) {
        throw missing('This deployment has no office program to make previews with.');
      }
      if (job === undefined) {
        const failure = await repository.findIngestionFailure(original);
        if (failure !== undefined) throw missing(`The document could not be ingested. ${failure}`.trim());
        throw missing('It is made once the document is ingested.');
      }
      if (job.status === 'queued' || job.status === 'running') throw missing('It is being made.');
      throw missing(`It could not be made. ${job.errorMessage ?? ''}`.trim());
    },

    async recordSuccess({ attempt, startId, ...of }: RecordPreviewEndInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'succeeded' }, { attempt, startId });
    },

    async recordParked({ error, ...of }: RecordPreviewFailureInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'parked', error });
    },

    async recordResumed(of: PreviewDocumentInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'running' });
    },

    async recordFailure({ error, attempt, startId, ...of }: RecordPreviewFailureInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'failed', error }, { attempt, startId });
    },

    async recordCancellation({ attempt, startId, ...of }: RecordPreviewEndInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'cancelled' }, { attempt, startId });
    },
  };
}

const missing = (detail: string) => appError('preview_not_found', { detail });
