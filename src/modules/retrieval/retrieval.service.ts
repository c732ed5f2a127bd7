import { validate as isUuid } from 'uuid';
import { type Actor, accessKeysOfActor } from '#src/domain/access/visibility.ts';
import { promptChunkLimits, selectChunksForPrompt } from '#src/domain/chat/context-window.ts';
import { addedToScope, type DocumentScope } from '#src/domain/retrieval/document-scope.ts';
import {
  chooseRerankerType,
  keepTopHitsOfGroups,
  type RerankingOptions,
} from '#src/domain/retrieval/fusion-and-reranking.ts';
import { queryTerms, type TextAnalyzer } from '#src/domain/text/words.ts';
import { appError, fieldError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { ReadableDocumentsFilter } from '#src/ports/vector-store.ts';
import { createGroupSearch, type GroupSearchQuery } from './group-search.ts';
import { type ChunkSearchDeps, languagesOf } from './leg-search.ts';
import type { PassageRanker } from './passage-ranker.ts';
import type {
  ChunkPlace,
  PassageHit,
  RecentPassage,
  RetrievalCandidate,
  RetrievalDegradation,
  RetrievalResult,
  RetrievedChunk,
} from './retrieval.model.ts';
import { createRetrievalRepository } from './retrieval.repository.ts';
import { createWordSearchRepository, type WordSearchLimits } from './word-search.repository.ts';

/**
 * Limits of the word search while a user types. It reads fewer postings than a search for a question, those of newer
 * documents first.
 */
const effort: Partial<WordSearchLimits> = { postings: 500, furthest: 1_000, candidatesPerHit: 1, documents: 100 };
const chunks = 1_000;
/** Once rare words give this many hits, the search ignores documents that contain only frequent words. */
const enough = 50;
/**
 * Maximum number of passages that a word search returns: one for each of up to five hundred documents, then further
 * ones of the best documents.
 */
const passages = 600;

export function createPassageSearch(deps: Pick<ChunkSearchDeps, 'db' | 'inTurn'> & { analyze: TextAnalyzer }) {
  const { searchPassages } = createWordSearchRepository(deps.db, effort);
  const repository = createRetrievalRepository(deps.db);

  return (actor: Actor, query: string): Promise<PassageHit[]> => {
    const readable = { orgId: actor.orgId, acl: accessKeysOfActor(actor) };
    return deps.inTurn.words(actor.orgId, async () => {
      const terms = queryTerms(query, languagesOf(await repository.listGroups(readable)), deps.analyze);
      return searchPassages({ readable, terms, limit: chunks, enough }, passages);
    });
  };
}

/**
 * Maximum length of the searched query. The question usually comes first, and text pasted after it would outweigh it.
 */
const queryCharacters = 4_000;

/** Number of chunks per part when a model reads a document in parts: as many as a search usually returns. */
const chunksPerPart = 4;

export type { ChunkPlace, PassageHit, RetrievalDegradation, RetrievedChunk } from './retrieval.model.ts';

export type RetrievalService = ReturnType<typeof createRetrievalService>;

/** Which of the documents that the caller may read are used: those of an agent's scope, narrowed by the lists of a chat. */
export type DocumentSelection = {
  scope?: DocumentScope | null | undefined;
  includeDocumentIds?: readonly string[] | undefined;
  excludeDocumentIds?: readonly string[] | undefined;
};

export type RetrieveInput = GroupSearchQuery &
  DocumentSelection & {
    reranking: RerankingOptions;
    contextTokens: number | null;
  };

type Ranking = { ranked: RetrievalCandidate[]; degradations: RetrievalDegradation[] };

/**
 * Finds passages that answer a question, in the documents that the actor may read and by their own retrieval settings.
 */
export function createRetrievalService(
  deps: ChunkSearchDeps & {
    rank: PassageRanker;
    models: Pick<ModelsService, 'reranker'>;
    /**
     * A scope with at most this many documents is searched by their ids, as a chat's list is, which finds them without
     * looking at others. A larger one is searched by its folders, at two to three times the cost of a search without a
     * scope; with some thousand ids, the search for words is slower than that.
     */
    listedDocuments?: number;
  },
) {
  const { db, rank, models, logger, listedDocuments = 1_000 } = deps;
  const repository = createRetrievalRepository(db);
  const search = createGroupSearch({ ...deps, repository });

  /** Reranks the chunks if the chat or a document group asks for it. Keeps their order if reranking fails. */
  async function rerank(
    actor: Actor,
    candidates: RetrievalCandidate[],
    { query, reranking: options, signal }: RetrieveInput,
  ): Promise<Ranking> {
    const unchanged = { ranked: candidates, degradations: [] };
    const type = chooseRerankerType(candidates, options);
    if (type === null) return unchanged;
    // Skips reranking if documents are configured for a reranker that the deployment no longer has. Only a chat that
    // itself asks for this reranker gets an error.
    if (type === 'cross_encoder' && options.isEnabled !== true && (await models.reranker('cross_encoder')) === null)
      return unchanged;
    let { ranked, degradations }: Ranking = unchanged;
    try {
      ranked = keepTopHitsOfGroups(await rank(type, { query, passages: candidates, signal }), options);
    } catch (error) {
      signal.throwIfAborted();
      logger.warn({ err: error }, 'reranking failed, passages keep their order');
      degradations = [{ reason: 'reranker_unavailable' }];
    }
    // Checks access again, because reranking may take half a minute, in which permissions may have changed.
    const readable = await repository.readableChunkIds(
      actor,
      ranked.map(({ chunkId }) => chunkId),
    );
    return { ranked: ranked.filter(({ chunkId }) => readable.has(chunkId)), degradations };
  }

  /**
   * Ranks chunks for a question, best first: a BM25 search and a vector search per document group, merged by reciprocal
   * rank fusion, then reranked if asked for.
   */
  async function rankChunks(actor: Actor, input: RetrieveInput): Promise<Ranking> {
    const query = input.query.slice(0, queryCharacters).toWellFormed();
    if (query.trim() === '') return { ranked: [], degradations: [] };
    const found = await search(actor, await listScope(await documentsOf(actor, input)), { ...input, query });
    const { ranked, degradations } = await rerank(actor, found.candidates, { ...input, query });
    return { ranked, degradations: [...found.degradations, ...degradations] };
  }

  async function documentsOf(actor: Actor, selection: DocumentSelection): Promise<ReadableDocumentsFilter> {
    const { scope, includeDocumentIds, excludeDocumentIds } = selection;
    return {
      orgId: actor.orgId,
      acl: accessKeysOfActor(actor),
      ...(includeDocumentIds && { includeDocumentIds }),
      ...(excludeDocumentIds && { excludeDocumentIds }),
      ...(scope && {
        scope: { ...scope, folderIds: await repository.listSubtrees(actor.orgId, scope.folderIds) },
      }),
    };
  }

  /** Replaces a scope with few documents by their ids. */
  async function listScope(documents: ReadableDocumentsFilter): Promise<ReadableDocumentsFilter> {
    const { scope, includeDocumentIds, ...others } = documents;
    if (scope === undefined) return documents;
    const ids = await repository.listFewOfScope({ ...others, scope }, listedDocuments);
    if (ids === null) return documents;
    const included = includeDocumentIds && new Set(includeDocumentIds);
    return { ...others, includeDocumentIds: included ? ids.filter((id) => included.has(id)) : ids };
  }

  return {
    /** Selects the best chunks for a prompt. Throws `service_unavailable` if all searches fail. */
    async retrieve(actor: Actor, input: RetrieveInput): Promise<RetrievalResult> {
      const { ranked, degradations } = await rankChunks(actor, input);
      const tokens = Math.min(promptChunkLimits.tokens, input.contextTokens ?? promptChunkLimits.tokens);
      return { chunks: selectChunksForPrompt(ranked, { ...promptChunkLimits, tokens }), degradations };
    },

    rankChunks,

    searchPassages: createPassageSearch(deps),

    /** A sample of the caller's documents: the first and the middle chunk of those that changed last. */
    recentPassages(actor: Actor): Promise<RecentPassage[]> {
      return repository.sampleRecent({ orgId: actor.orgId, acl: accessKeysOfActor(actor) });
    },

    /**
     * Reads one part of a document. A part beyond the end has no chunks.
     * @param part counts from 1
     * @throws `document_not_found`, also for a document that the selection leaves out or that has no searchable text
     */
    async readPart(
      actor: Actor,
      { documentId, part, ...selection }: DocumentSelection & { documentId: string; part: number },
    ): Promise<{ chunks: RetrievedChunk[]; parts: number }> {
      if (!isUuid(documentId)) throw appError('document_not_found');
      const documents = await documentsOf(actor, selection);
      const load = (first: number, limit: number) => repository.loadRun(documents, documentId, { first, limit });
      const run = await load((part - 1) * chunksPerPart, chunksPerPart);
      const [any] = run.length > 0 ? run : await load(0, 1);
      if (any === undefined) throw appError('document_not_found');
      return { chunks: run.map(({ chunkCount, ...chunk }) => chunk), parts: Math.ceil(any.chunkCount / chunksPerPart) };
    },

    /** Finds where chunks stand in their documents. Chunks that were replaced or are not readable are missing. */
    findPlaces(actor: Actor, chunkIds: readonly string[]): Promise<ChunkPlace[]> {
      return repository.findPlaces(actor, chunkIds);
    },

    stillReadable(actor: Actor, chunkIds: readonly string[]): Promise<Set<string>> {
      return repository.readableChunkIds(actor, chunkIds);
    },

    /** Throws 422 at `path` if a folder or document that the scope has and `before` lacks is not readable. */
    async requireReadableScope(
      actor: Actor,
      scope: DocumentScope,
      { path, before = null }: { path: string; before?: DocumentScope | null | undefined },
    ): Promise<void> {
      const added = addedToScope(scope, before);
      const [folders, documents] = await Promise.all([
        repository.readableFolderIds(actor, added.folderIds),
        repository.readableDocumentIds(actor, added.documentIds),
      ]);
      for (const [kind, sent, ids, readable] of [
        ['folder', scope.folderIds, added.folderIds, folders],
        ['document', scope.documentIds, added.documentIds, documents],
      ] as const) {
        const unreadable = ids.find((id) => !readable.has(id));
        if (unreadable === undefined) continue;
        const place = `${path}.${kind}_ids.${sent.indexOf(unreadable)}`;
        throw fieldError(place, `must be the id of a ${kind} that you can read`, `${kind}_not_found`);
      }
    },

    async unreadableDocuments(actor: Actor, documentIds: readonly string[]): Promise<string[]> {
      const readable = await repository.readableDocumentIds(actor, documentIds);
      return documentIds.filter((id) => !readable.has(id));
    },
  };
}
