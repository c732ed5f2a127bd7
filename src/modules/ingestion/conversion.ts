import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { ConvertResult, IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { charsetOfMediaType, type SourceFormat } from '#src/domain/documents/formats.ts';
import { appError } from '#src/errors.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { PreviewsService } from '#src/modules/previews/previews.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { DocumentConverter, MalwareScanner, OcrOptions } from '#src/ports/documents.ts';
import { createConversionsRepository, createGenerationsRepository } from './generations.repository.ts';
import type { IngestionTarget } from './ingestion.model.ts';

/** Time that one activity spends on OCR before it ends, so that other documents can be processed in between. */
const OCR_SLICE_MS = 20_000;

export function createDocumentConversion(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'read' | 'withLocalFile'>;
  scanner: MalwareScanner | null;
  converter: DocumentConverter;
  previews: Pick<PreviewsService, 'enqueue'>;
  jobs: Pick<JobsService, 'dispatch'>;
}) {
  const { db, blobs, scanner, converter, previews, jobs } = deps;
  const generations = createGenerationsRepository(db);
  const conversions = createConversionsRepository(db);

  return {
    /** Scans an original before it is parsed. Throws `malware_found` and blocks downloads of the file. */
    async requireClean(orgId: string, target: IngestionTarget, signal: AbortSignal): Promise<void> {
      if (scanner === null) return;
      const { blobKey, contentSha256: sha256 } = target;
      const signature = await scanner.scan(await blobs.read(blobKey), signal);
      await generations.setMalware({ orgId, blobKey, sha256, signature });
      if (signature !== null) throw appError('malware_found', { detail: `The malware scanner found ${signature}.` });
    },

    async detectFormat(of: IngestDocumentInput, target: IngestionTarget): Promise<SourceFormat> {
      const { blobKey, fileName, mediaType } = target;
      const declaredMediaType = mediaType === null ? {} : { declaredMediaType: mediaType };
      const sourceFormat =
        target.sourceFormat ??
        target.declaredFormat ??
        (await blobs.withLocalFile(blobKey, (path) => converter.detect({ path, fileName, ...declaredMediaType })));
      // Archives in archives could multiply without end, and a synced folder mirrors what is in it.
      if (sourceFormat === 'archive' && target.importSourceProvider !== null) {
        throw appError('unsupported_format', {
          detail: 'The file is an archive. Archives are unpacked only where they are uploaded themselves.',
        });
      }
      await generations.setSourceFormat(of, sourceFormat);
      return sourceFormat;
    },

    /**
     * Converts the original to Markdown, unless the organization has converted this content before. Runs OCR for some
     * of the scanned pages per call; the body is complete once the result has no `pagesLeft`.
     * @param step.onPage is called with the number of recognized pages and of all scanned pages
     */
    async convert(
      of: IngestDocumentInput,
      target: IngestionTarget,
      step: {
        signal: AbortSignal;
        report: (details: unknown) => void;
        onPage: (done: number, total: number) => Promise<void>;
      },
    ): Promise<ConvertResult> {
      const { blobKey, fileName, mediaType, contentSha256, sourceFormat: format } = target;
      if (format === null)
        throw appError('internal_error', {
          detail: 'The format of the document was not detected before its conversion.',
        });
      const encoding = charsetOfMediaType(mediaType ?? '');
      // The version of a text's converter contains the character encoding, because the same bytes in another encoding
      // are a different text.
      const converterVersion = encoding === undefined ? converter.version : `${converter.version} ${encoding}`;
      const key = { orgId: of.orgId, contentSha256, converterVersion, sourceFormat: format };

      const known = await conversions.find(key);
      let inserted: typeof known;
      if (known === undefined) {
        const recognition = await recognitionOf(of, converterVersion, step.onPage);
        const { body, title, pageMap, pageCount, pagesLeft } = await blobs.withLocalFile(blobKey, (path) =>
          converter.convert({
            orgId: of.orgId,
            path,
            fileName,
            format,
            encoding,
            signal: step.signal,
            onProgress: step.report,
            recognition,
          }),
        );
        if (pagesLeft > 0) return { charCount: 0, pageCount: null, reused: false, pagesLeft };
        if (body.trim() === '') throw appError('empty_document');
        step.signal.throwIfAborted();
        inserted = await conversions.insert({ ...key, id: uuidv7(), body, title, pageMap, pageCount });
        if (pageMap !== null) await conversions.deleteRecognizedPages(of);
      }
      const conversion = known ?? inserted ?? (await conversions.find(key));
      if (conversion === undefined)
        throw appError('internal_error', { detail: 'The conversion of the document was not stored.' });
      await useConversion(of, conversion.id, format);
      const { charCount, pageCount } = conversion;
      return { charCount, pageCount, reused: known !== undefined };
    },

    async readSource(of: IngestDocumentInput, { conversionId, documentName, ragConfig }: IngestionTarget) {
      const converted = conversionId === null ? undefined : await conversions.readBody(of.orgId, conversionId);
      if (conversionId === null || converted === undefined) {
        throw appError('internal_error', { detail: 'The document was not converted before chunking.' });
      }
      return { orgId: of.orgId, conversionId, documentName, chunking: ragConfig.chunking, ...converted };
    },
  };

  /**
   * Returns the pages that OCR has read so far, and a callback that stores each further page, so that a killed worker
   * repeats at most one.
   */
  async function recognitionOf(
    of: IngestDocumentInput,
    converterVersion: string,
    onPage: (done: number, total: number) => Promise<void>,
  ): Promise<OcrOptions> {
    const key = { ...of, converterVersion };
    return {
      known: await conversions.listRecognizedPages(key),
      sliceMs: OCR_SLICE_MS,
      keep: async (page, { done, total }) => {
        await conversions.insertRecognizedPage(key, page);
        await onPage(done, total);
      },
    };
  }

  /** Links a conversion to a generation and, in the same transaction, requests the preview of its original. */
  async function useConversion(of: IngestDocumentInput, conversionId: string, format: string): Promise<void> {
    const previewJobId = await db.transaction(async (trx) => {
      const isNew = await createGenerationsRepository(trx).setConversion(of, conversionId);
      return isNew ? previews.enqueue(trx, of, format) : null;
    });
    if (previewJobId !== null) await jobs.dispatch(previewJobId);
  }
}
