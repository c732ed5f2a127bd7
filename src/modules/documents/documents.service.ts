import { Readable } from 'node:stream';
import type { Knex } from 'knex';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { fileExtension } from '#src/domain/documents/formats.ts';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';
import { appError } from '#src/errors.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import { createChunksRepository } from './chunks.repository.ts';
import { lockWritable } from './document-access.ts';
import { type ChangeDeps, createDocumentChanges, type DocumentChange } from './document-changes.ts';
import { createDocumentIntake, type IntakeDeps, type NewDocument } from './document-intake.ts';
import { createDocumentLists } from './document-lists.ts';
import { createDocumentPublisher, type PublisherDeps } from './document-publisher.ts';
import { createDocumentRemoval, type RemovalDeps } from './document-removal.ts';
import type {
  ChunkInContext,
  ChunkRow,
  ConvertedDocument,
  DocumentRow,
  DocumentView,
  FullDocument,
} from './documents.model.ts';
import { createDocumentsRepository } from './documents.repository.ts';
import type { UploadsService } from './uploads.service.ts';

export type PastedText = Pick<NewDocument, 'id'> & {
  name: string;
  content: string;
  sourceFormat: 'text' | 'markdown' | 'code';
  targetFolderId: string | undefined;
};

const pastedAs = {
  text: { extension: '.txt', mediaType: 'text/plain' },
  markdown: { extension: '.md', mediaType: 'text/markdown' },
  code: { extension: '.txt', mediaType: 'text/plain' },
} as const;

export type DocumentsDeps = IntakeDeps &
  Omit<ChangeDeps, 'publisher'> &
  PublisherDeps &
  RemovalDeps & {
    uploads: UploadsService;
    folders: Pick<FoldersService, 'get'>;
  };

export function createDocumentsService(deps: DocumentsDeps) {
  const documents = createDocumentsRepository(deps.db);
  const chunks = createChunksRepository(deps.db);
  const intake = createDocumentIntake(deps);
  const publisher = createDocumentPublisher(deps);
  const changes = createDocumentChanges({ ...deps, publisher });
  const removal = createDocumentRemoval(deps);

  const getView = async (actor: Actor, documentId: string): Promise<DocumentView> => {
    const document = await documents.findView(actor, documentId);
    if (document === undefined) throw appError('document_not_found');
    return document;
  };

  const find = async (actor: Actor, documentId: string): Promise<FullDocument | undefined> => {
    const document = await documents.findView(actor, documentId);
    return document && { ...document, content: await documents.readBody(document) };
  };

  const get = async (actor: Actor, documentId: string): Promise<FullDocument> => {
    const document = await find(actor, documentId);
    if (document === undefined) throw appError('document_not_found');
    return document;
  };

  return {
    requireRoom: intake.requireRoom,

    /** As `upload`, without reading it. @returns its id */
    add: intake.add,

    async upload(actor: RequestActor, input: Omit<NewDocument, 'declaredFormat'>): Promise<FullDocument> {
      return get(actor, await intake.add(actor, { ...input, declaredFormat: null }));
    },

    async paste(actor: RequestActor, text: PastedText): Promise<FullDocument> {
      const { extension, mediaType } = pastedAs[text.sourceFormat];
      const content = Buffer.from(text.content);
      const file = await deps.uploads.store(actor, {
        fileName: fileExtension(text.name) === '' ? text.name + extension : text.name,
        mediaType,
        content: Readable.from([content]),
        announcedBytes: content.length,
      });
      const { sourceFormat: declaredFormat, content: _, ...asked } = text;
      const document = { ...asked, file, declaredFormat, chunking: {}, ingest: true };
      const id = await intake.add(actor, document).catch(async (error: unknown) => {
        await deps.uploads.discard(file);
        throw error;
      });
      return get(actor, id);
    },

    ...createDocumentLists(deps),

    /** What the next chunks are cut from, if nobody changes it. Throws `document_not_converted` before its conversion. */
    async getConverted(actor: Actor, documentId: string): Promise<ConvertedDocument> {
      const document = await documents.findRow(actor, documentId);
      if (document === undefined) throw appError('document_not_found');
      const conversion = await documents.findConversion(document);
      if (conversion === undefined) {
        throw appError('document_not_converted', {
          detail:
            'Its original was not converted yet: wait for its ingestion, or begin one with POST /rag/ingest/{document_id}.',
        });
      }
      const { orgId, name, ragConfig } = document;
      return { orgId, name, ragConfig, ...conversion };
    },

    find,
    get,
    /** Without the body: for the state of its ingestion. */
    getView,

    async listChunks(actor: Actor, documentId: string): Promise<ChunkRow[]> {
      await getView(actor, documentId);
      return chunks.listActive(actor, documentId);
    },

    async getChunk(actor: Actor, chunkId: string): Promise<ChunkInContext> {
      const chunk = await chunks.findActive(actor, chunkId);
      if (chunk === undefined) throw appError('chunk_not_found');
      return chunk;
    },

    async change(actor: RequestActor, documentId: string, change: DocumentChange): Promise<FullDocument> {
      await changes.change(actor, documentId, change);
      return get(actor, documentId);
    },

    /** For a change by another service, in its transaction. */
    lockWritable,

    /** After its commit: `publishNow`. */
    async setConfig(trx: Knex, actor: Actor, document: DocumentRow, ragConfig: RagConfig): Promise<void> {
      await createDocumentsRepository(trx).update({ ...document, ragConfig, updatedBy: actor.userId });
    },

    /** What its next generation is embedded by. The present one goes on being asked: there is nothing to publish. */
    async setEmbeddingModel(trx: Knex, documentId: string, model: string): Promise<void> {
      await createDocumentsRepository(trx).setEmbeddingModel(documentId, model);
    },

    publishNow: publisher.publishNow,
    publishOutdated: publisher.publishOutdated,

    /** Nobody reads the document from then on; the rest of it is taken away by a workflow. */
    remove: removal.remove,
    discard: removal.discard,
  };
}

export type DocumentsService = ReturnType<typeof createDocumentsService>;
