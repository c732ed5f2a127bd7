import type { Logger } from 'pino';
import type { Actor } from '#src/domain/access/visibility.ts';
import { cosineSimilarity } from '#src/domain/alignment/score.ts';
import {
  createCitationMarkerRewriter,
  type DroppedCitation,
  findQuote,
  findSourcePassages,
  minCitationSupport,
  scoreSentenceAttribution,
  shareOfWordsInPassage,
  splitReplyIntoStatements,
} from '#src/domain/chat/citation-markers.ts';
import { headingAbove } from '#src/domain/documents/chunk-document.ts';
import { pageNumberAt } from '#src/domain/documents/pages.ts';
import { contentStems, type TextAnalyzer } from '#src/domain/text/words.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { ChunkPlace, RetrievalService, RetrievedChunk } from '#src/modules/retrieval/retrieval.service.ts';
import type { EmbedderFactory } from '#src/ports/models.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import type { Citation } from './chat.model.ts';

/**
 * Timeout of the embedder; short because the user waits for the answer. After it, citations are checked by words alone.
 */
const embeddingTimeoutMs = 5_000;
/** Maximum statements of a reply that are embedded; further ones are checked by words alone. */
const embeddedStatements = 64;

export type ReplyCitations = {
  /** Adds passages found by tools. Returns their citation numbers in order; a known passage keeps its number. */
  add(chunks: readonly RetrievedChunk[]): number[];
  /**
   * Removes invalid citation markers from a reply and renumbers the valid ones, so that `[k]` is the k-th citation.
   */
  rewrite(pieces: AsyncIterable<string>): AsyncIterable<string>;
  sources(reply: string): Promise<{ citations: Citation[]; dropped: DroppedCitation[] }>;
};

export type CitationTracker = ReturnType<typeof createCitationTracker>;

/** Used for a chat without documents, where a number in brackets is ordinary text and no citation marker. */
const noCitations: ReplyCitations = {
  add: (chunks) => chunks.map(() => 0),
  rewrite: (pieces) => pieces,
  sources: async () => ({ citations: [], dropped: [] }),
};

/**
 * Checks the citations of a reply. A citation marker is valid if its number belongs to a passage that the actor can
 * still read and that supports the statement: max(similarity, share of the statement's content words) ≥ 0.35. The
 * similarity is the cosine, scaled so that it is about 0 for unrelated texts of every embedding model.
 * For a reply without markers, finds the cited passages by similarity and shared words.
 */
export function createCitationTracker(deps: {
  retrieval: Pick<RetrievalService, 'stillReadable' | 'findPlaces'>;
  models: Pick<ModelsService, 'unrelatedSimilarity'>;
  embedders: EmbedderFactory;
  vectors: Pick<VectorStore, 'fetch'>;
  analyze: TextAnalyzer;
  logger: Logger;
}) {
  const { retrieval, models, embedders, vectors, analyze, logger } = deps;
  const contentWords = (text: string) => contentStems(analyze(text));

  function track(actor: Actor, first: readonly RetrievedChunk[], stopped: AbortSignal): ReplyCitations {
    const chunks: RetrievedChunk[] = [];
    const comparisonsOf = new Map<RetrievedChunk, ReturnType<typeof createComparisons>>();
    const readability = new Map<RetrievedChunk, boolean>();
    const wordsOfChunks = new Map<RetrievedChunk, ReadonlySet<string>>();
    /** The first statement that cites each passage. */
    const citingStatements = new Map<RetrievedChunk, string>();
    const lastChecks = new Map<RetrievedChunk, { statement: string; holds: boolean }>();
    const similarity = (statement: string, chunk: RetrievedChunk) =>
      comparisonsOf.get(chunk)?.similarity(statement, chunk) ?? 0;

    function add(more: readonly RetrievedChunk[]): number[] {
      const positionOf = ({ chunkId }: RetrievedChunk) => chunks.findIndex((chunk) => chunk.chunkId === chunkId);
      const unknown = more.filter((chunk) => positionOf(chunk) < 0);
      const comparisons = createComparisons(actor, unknown, stopped);
      for (const chunk of unknown) comparisonsOf.set(chunk, comparisons);
      chunks.push(...unknown);
      return more.map((chunk) => positionOf(chunk) + 1);
    }
    add(first);

    /**
     * Checks access to a passage when the reply first cites it, because its document may be deleted or unshared while
     * the answer is written. There is no later check: the citation's number was already sent, and dropping the citation
     * would renumber the others. Opening a citation checks access again.
     */
    async function isReadable(chunk: RetrievedChunk): Promise<boolean> {
      const known = readability.get(chunk);
      if (known !== undefined) return known;
      stopped.throwIfAborted();
      const readable = (await retrieval.stillReadable(actor, [chunk.chunkId])).has(chunk.chunkId);
      readability.set(chunk, readable);
      return readable;
    }

    function wordsOf(chunk: RetrievedChunk): ReadonlySet<string> {
      const words = wordsOfChunks.get(chunk) ?? new Set(contentWords(chunk.content));
      wordsOfChunks.set(chunk, words);
      return words;
    }

    async function isSupported(statement: string, chunk: RetrievedChunk): Promise<boolean> {
      const shared = shareOfWordsInPassage(contentWords(statement), wordsOf(chunk));
      if (shared >= minCitationSupport) return true;
      await comparisonsOf.get(chunk)?.embed([statement], [chunk]);
      return similarity(statement, chunk) >= minCitationSupport;
    }

    const markers = createCitationMarkerRewriter(chunks, async (chunk, statement) => {
      if (!(await isReadable(chunk))) return 'unreadable';
      // The last check of each passage is cached, because a model in a repetition loop cites the same statement
      // thousands of times.
      const checked = lastChecks.get(chunk);
      const holds = checked?.statement === statement ? checked.holds : await isSupported(statement, chunk);
      lastChecks.set(chunk, { statement, holds });
      if (holds && !citingStatements.has(chunk)) citingStatements.set(chunk, statement);
      return holds ? null : 'unsupported';
    });

    async function attributed(reply: string): Promise<RetrievedChunk[]> {
      if (chunks.length === 0) return [];
      const statements = splitReplyIntoStatements(reply);
      const chunkIds = chunks.map((chunk) => chunk.chunkId);
      stopped.throwIfAborted();
      const [readable] = await Promise.all([
        retrieval.stillReadable(actor, chunkIds),
        ...Array.from(new Set(comparisonsOf.values()), (comparisons) => comparisons.embed(statements, chunks)),
      ]);
      const candidates = chunks.filter((chunk) => readable.has(chunk.chunkId));
      const wordsOfStatements = new Map(statements.map((statement) => [statement, contentWords(statement)]));
      return findSourcePassages(statements, candidates, (statement, chunk) =>
        scoreSentenceAttribution(similarity(statement, chunk), wordsOfStatements.get(statement) ?? [], wordsOf(chunk)),
      );
    }

    return {
      add,
      rewrite: markers.rewrite,
      async sources(reply) {
        const { cited, dropped } = markers.found();
        const isMarked = cited.length > 0 || dropped.length > 0;
        const sources = isMarked ? cited : await attributed(reply);
        const places = await retrieval.findPlaces(
          actor,
          sources.map(({ chunkId }) => chunkId),
        );
        const citations = sources.map((chunk) => {
          const place = places.find(({ chunkId }) => chunkId === chunk.chunkId);
          return toCitation(chunk, place, citingStatements.get(chunk) ?? reply);
        });
        return { citations, dropped };
      },
    };
  }

  function toCitation(chunk: RetrievedChunk, place: ChunkPlace | undefined, statement: string): Citation {
    const { chunkId, documentId, documentName, content } = chunk;
    const quote = findQuote(statement, content, contentWords);
    if (place === undefined || quote === null) return { chunkId, documentId };
    const contentOffset = place.contentOffset + quote.start;
    const pageNumber = pageNumberAt(place.pageMap, contentOffset);
    const heading = headingAbove({ ...place, content, documentName: place.chunkedName }, quote.start);
    return {
      chunkId,
      documentId,
      documentName,
      pageNumber,
      contentOffset,
      heading,
      quote: content.slice(quote.start, quote.end),
    };
  }

  /** Groups chunks by embedding model, since vectors of different models cannot be compared. */
  function createComparisons(actor: Actor, chunks: readonly RetrievedChunk[], stopped: AbortSignal) {
    const byModel = Map.groupBy(chunks, ({ embeddingModel }) => embeddingModel);
    const comparisons = new Map(
      Array.from(byModel, ([model, ofModel]) => [model, createComparison(actor, model, ofModel, stopped)]),
    );
    return {
      async embed(statements: readonly string[], compared: readonly RetrievedChunk[]): Promise<void> {
        const models = new Set(compared.map(({ embeddingModel }) => embeddingModel));
        await Promise.all(Array.from(models, (model) => comparisons.get(model)?.embed(statements)));
      },
      similarity: (statement: string, chunk: RetrievedChunk): number =>
        comparisons.get(chunk.embeddingModel)?.similarity(statement, chunk) ?? 0,
    };
  }

  function createComparison(actor: Actor, model: string, chunks: readonly RetrievedChunk[], stopped: AbortSignal) {
    const statementVectors = new Map<string, Float32Array>();
    let chunkVectors: ReadonlyMap<string, Float32Array> | undefined;
    let unrelated = 0;
    let isDown = false;

    return {
      /**
       * Embeds statements of the reply. Does nothing once the embedder has failed, so that the user does not wait for
       * it at each citation marker.
       */
      async embed(statements: readonly string[]): Promise<void> {
        const unknown = statements.filter((statement) => statement !== '' && !statementVectors.has(statement));
        const embedded = unknown.slice(0, embeddedStatements - statementVectors.size);
        if (isDown || embedded.length === 0) return;
        try {
          const chunkIds = chunks.map((chunk) => chunk.chunkId);
          const signal = AbortSignal.any([stopped, AbortSignal.timeout(embeddingTimeoutMs)]);
          const [vectorsOfStatements, vectorsOfChunks, cosineOfUnrelated] = await Promise.all([
            embedders.of(model).embed(embedded, { signal }),
            chunkVectors ?? vectors.fetch({ orgId: actor.orgId, model, chunkIds }),
            models.unrelatedSimilarity(model),
          ]);
          unrelated = cosineOfUnrelated;
          chunkVectors = vectorsOfChunks;
          embedded.forEach((statement, index) => {
            const vector = vectorsOfStatements[index];
            if (vector) statementVectors.set(statement, vector);
          });
        } catch (error) {
          stopped.throwIfAborted();
          isDown = true;
          logger.warn({ err: error, model }, 'embedding failed, checking citations by words alone');
        }
      },

      similarity(statement: string, chunk: RetrievedChunk): number {
        const a = statementVectors.get(statement);
        const b = chunkVectors?.get(chunk.chunkId);
        return a === undefined || b === undefined ? 0 : (cosineSimilarity(a, b) - unrelated) / (1 - unrelated);
      },
    };
  }

  /**
   * @param chunks passages of the prompt, where `chunks[n - 1]` has number n; null if the chat uses no documents
   * @param stopped aborts reading passages, for example because the actor's account is disabled
   */
  return (actor: Actor, chunks: readonly RetrievedChunk[] | null, stopped: AbortSignal): ReplyCitations =>
    chunks === null ? noCitations : track(actor, chunks, stopped);
}
