import { posix } from 'node:path';
import { v5 as uuidv5 } from 'uuid';
import type { ImportArchiveInput, ImportArchiveResult } from '#src/contracts/ingestion.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { guessSourceFormat, mediaTypeOfFormat } from '#src/domain/documents/formats.ts';
import { documentNameFromFile, folderNamesBelowBasePath } from '#src/domain/documents/names.ts';
import type { ChunkingOptions } from '#src/domain/documents/rag-config.ts';
import { AppError, appError, type ErrorCode } from '#src/errors.ts';
import type { DocumentLinksService } from '#src/modules/documents/document-links.service.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type { UploadsService } from '#src/modules/documents/uploads.service.ts';
import type { FolderTreeChangesService } from '#src/modules/folders/folders.service.ts';
import type { IngestionService } from '#src/modules/ingestion/ingestion.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { ArchiveEntry, DocumentConverter } from '#src/ports/documents.ts';

/** Time that one activity imports before it ends, so that files of others can be imported in between. */
const SLICE_MS = 30_000;
const PROGRESS_EVERY_MS = 1_000;
/** Maximum number of skipped files that a slice names. */
const NAMED_AT_ONCE = 20;
const MAX_NAME_LENGTH = 200;

/** Errors of one file; any other error ends the import. */
const fileErrors: ReadonlySet<ErrorCode> = new Set([
  'corrupt_document',
  'folder_limit_reached',
  'folder_too_deep',
  'name_taken',
  'payload_too_large',
]);

type NewFile = { id: string; entry: ArchiveEntry; folderId: string | null; chunking: ChunkingOptions };

export type ArchivesService = ReturnType<typeof createArchivesService>;

/** Imports the files of an uploaded archive as documents, as a step of the archive's own ingestion. */
export function createArchivesService(deps: {
  blobs: Pick<BlobStore, 'withLocalFile'>;
  converter: Pick<DocumentConverter, 'readArchive'>;
  ingestion: Pick<IngestionService, 'findArchive'>;
  documents: Pick<DocumentsService, 'add' | 'isKnown'>;
  documentLinks: Pick<DocumentLinksService, 'list'>;
  folderChanges: Pick<FolderTreeChangesService, 'ensurePath'>;
  uploads: Pick<UploadsService, 'store' | 'discard'>;
  jobs: Pick<JobsService, 'advance' | 'find'>;
  findActor: (userId: string) => Promise<Actor | null>;
}) {
  const { blobs, converter, ingestion, documents, documentLinks, folderChanges, uploads, jobs, findActor } = deps;

  /** Returns the user who requested the ingestion, for whom the files are imported. */
  async function requireOwner(jobId: string): Promise<RequestActor> {
    const job = await jobs.find(jobId);
    const actor = job && (await findActor(job.createdBy));
    if (actor == null) throw appError('account_disabled');
    return { ...actor, requestId: jobId };
  }

  async function importFile(owner: RequestActor, { id, entry, folderId, chunking }: NewFile): Promise<void> {
    const fileName = posix.basename(entry.path);
    const content = await entry.open();
    const mediaType = mediaTypeOfFormat(guessSourceFormat({ fileName, mediaType: null }), fileName);
    const upload = { fileName, mediaType, content, announcedBytes: entry.sizeBytes };
    const file = await uploads.store(owner, upload).finally(() => content.destroy());
    try {
      const folder = await folderChanges.ensurePath(owner, folderId, folderNamesBelowBasePath('', entry.path));
      await documents.add(owner, {
        id,
        file,
        name: documentNameFromFile(fileName),
        declaredFormat: null,
        targetFolderId: folder.id,
        importSource: {
          provider: 'archive',
          url: `archive:/${entry.path.split('/').map(encodeURIComponent).join('/')}`,
        },
        chunking,
        ingest: true,
        isBulk: true,
      });
    } catch (error) {
      await uploads.discard(file);
      throw error;
    }
  }

  return {
    /**
     * Imports files for a while. A document's id is derived from the archive and the path, so a repeated step makes no
     * second document, and none of a document that was deleted since.
     */
    async importFiles(
      { from, ...of }: ImportArchiveInput,
      { signal }: { signal: AbortSignal },
    ): Promise<ImportArchiveResult> {
      const result: ImportArchiveResult = { next: null, files: 0, skippedCount: 0, skipped: [] };
      const archive = await ingestion.findArchive(of);
      if (archive === null) return result;
      const { blobKey, jobId, chunking } = archive;
      const owner = await requireOwner(jobId);
      const [home] = await documentLinks.list(owner, of.documentId);
      let endMs: number | undefined;
      let reportMs = 0;

      function skip({ path }: ArchiveEntry, reason: string): void {
        result.skippedCount += 1;
        if (result.skipped.length < NAMED_AT_ONCE)
          result.skipped.push(`${path.slice(0, MAX_NAME_LENGTH).toWellFormed()} (${reason})`);
      }

      await blobs.withLocalFile(blobKey, async (path) => {
        let passed = 0;
        for await (const entry of converter.readArchive(path)) {
          signal.throwIfAborted();
          if (passed < from) {
            passed += 1;
            continue;
          }
          const nowMs = performance.now();
          // Only now, because it can take longer than a slice to unpack the files that were passed.
          endMs ??= nowMs + SLICE_MS;
          if (nowMs > endMs) {
            result.next = passed;
            return;
          }
          if (nowMs > reportMs) {
            reportMs = nowMs + PROGRESS_EVERY_MS;
            await jobs.advance(jobId, { progress: { done: passed, total: null, unit: 'files' } });
          }
          passed += 1;
          result.files += 1;
          const id = uuidv5(entry.path, of.documentId);
          if (entry.refusal !== null) skip(entry, entry.refusal);
          else if (!(await documents.isKnown(id))) {
            await importFile(owner, { id, entry, chunking, folderId: home?.folderId ?? null }).catch(
              (error: unknown) => {
                if (!(error instanceof AppError) || !fileErrors.has(error.code)) throw error;
                skip(entry, error.message);
              },
            );
          }
        }
        await jobs.advance(jobId, { progress: { done: passed, total: passed, unit: 'files' } });
      });
      return result;
    },
  };
}
