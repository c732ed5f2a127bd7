import pLimit from 'p-limit';
import { findHtmlTitle } from '../adapters/converter/page-title.ts';
import { createFairWorkQueue } from '../adapters/limits.ts';
import { createClamdScanner } from '../adapters/malware/clamd.ts';
import { deriveKey } from '../derived-key.ts';
import { defaultRagConfig } from '../domain/documents/rag-config.ts';
import { appError } from '../errors.ts';
import { createDeletionService } from '../modules/deletion/deletion.service.ts';
import { createDocumentFilesService, createDownloadUrlTokens } from '../modules/documents/document-files.service.ts';
import {
  createDocumentLinksService,
  createDocumentsInFoldersService,
} from '../modules/documents/document-links.service.ts';
import { createDocumentsService } from '../modules/documents/documents.service.ts';
import { createIngestionWait } from '../modules/documents/ingestion-wait.service.ts';
import { createUploadsService } from '../modules/documents/uploads.service.ts';
import { createWebImportService } from '../modules/documents/web-import.service.ts';
import { createEmbeddingsService } from '../modules/embeddings/embeddings.service.ts';
import { createFolderTreeChangesService } from '../modules/folders/folders.service.ts';
import { createChunkContextsService, createDocumentChunkerService } from '../modules/ingestion/chunking.service.ts';
import { createGenerationsService } from '../modules/ingestion/generations.service.ts';
import { createIngestionService } from '../modules/ingestion/ingestion.service.ts';
import { createReindexingService } from '../modules/ingestion/reindexing.service.ts';
import { createOriginalFilesService } from '../modules/originals/originals.service.ts';
import { createPreviewsService } from '../modules/previews/previews.service.ts';
import { createRagService } from '../modules/rag/rag.service.ts';
import { createReembeddingService } from '../modules/reembedding/reembedding.service.ts';
import { createStoreAuditService } from '../modules/store-audit/store-audit.service.ts';
import type { AccountServices } from './account-services.ts';
import type { SharedServices } from './shared-services.ts';

/**
 * Maximum waiting chunking previews per organization: each preview holds up to a megabyte of text and takes a second.
 */
const MAX_WAITING_PREVIEWS = 8;

const tooManyPreviews = () =>
  appError('rate_limited', {
    detail: `Your organization has ${MAX_WAITING_PREVIEWS} previews waiting, which is the limit. Try again in a few seconds.`,
    retryAfterSeconds: 5,
  });

export function createDocumentServices(shared: SharedServices & Pick<AccountServices, 'jobWatch'>) {
  const { config, db, blobs, vectors, jobs, orchestrator, logger, folders, limits, models } = shared;
  const { converter, renderer, tempDir, tokens, chunker, embedders, chatModel, web } = shared;

  const originals = createOriginalFilesService({ db, blobs, logger, limit: pLimit(2) });
  const previews = createPreviewsService({ db, blobs, originals, renderer, converter, jobs, limits, tempDir });
  const embeddings = createEmbeddingsService({ db, embedders });
  const generations = createGenerationsService({ jobs, orchestrator, logger });
  const deletion = createDeletionService({ db, originals, embeddings, vectors, jobs, orchestrator });
  const defaultConfig = async () =>
    defaultRagConfig({
      embeddingModel: shared.embeddingModel,
      // The packaged reranker costs most of a second for each question and improves rankings by nothing measurable.
      hasReranker: (await models.reranker('cross_encoder'))?.isLocal === false,
    });
  const uploads = createUploadsService({ db, originals, limits });
  const documents = createDocumentsService({
    db,
    originals,
    uploads,
    vectors,
    jobs,
    generations,
    deletion,
    folders,
    limits,
    logger,
    defaultConfig,
  });
  const contents = createDocumentsInFoldersService({ deletion });
  const chunkContexts = createChunkContextsService({
    ...{ db, chatModel, models, tokens },
    model: config.models.contextualModel,
  });
  const documentChunker = createDocumentChunkerService({ chunker, embeddings, chunkContexts });

  return {
    originals,
    previews,
    embeddings,
    deletion,
    documents,
    uploads,
    whenIngested: createIngestionWait({ documents, jobWatch: shared.jobWatch }),
    documentLinks: createDocumentLinksService({ db, folders, documents }),
    folderChanges: createFolderTreeChangesService({ db, folders, contents }),
    documentFiles: createDocumentFilesService({
      db,
      blobs,
      previews,
      tokens: createDownloadUrlTokens(deriveKey(config.urlSigningKey, 'file-addresses')),
      downloadUrlSeconds: config.downloadUrlSeconds,
    }),
    webImport: createWebImportService({ web, documents, uploads, limits, pageTitle: findHtmlTitle }),
    chunkContexts,
    ingestion: createIngestionService({
      db,
      blobs,
      scanner: config.clamdAddress === null ? null : createClamdScanner({ address: config.clamdAddress }),
      originals,
      converter,
      detectLanguage: shared.detectLanguage,
      embeddings,
      documentChunker,
      chunkContexts,
      previews,
      vectors,
      jobs,
      orchestrator,
    }),
    reindexing: createReindexingService({ db, analyze: shared.analyze, detectLanguage: shared.detectLanguage }),
    reembedding: createReembeddingService({ db, documents, generations, jobs, models, orchestrator }),
    rag: createRagService({
      ...{ db, documents, generations, models, documentChunker, chunkContexts, embedders, defaultConfig },
      previewQueue: createFairWorkQueue(2, {
        bound: { maxWaitingPerOwner: MAX_WAITING_PREVIEWS, refusal: tooManyPreviews },
      }),
    }),
    storeAudit: createStoreAuditService({ db, vectors, blobs, originals, deletion, jobs, generations, logger }),
  };
}

export type DocumentServices = ReturnType<typeof createDocumentServices>;
