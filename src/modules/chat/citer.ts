import type { Logger } from 'pino';
import { cosine } from '#src/domain/alignment-score.ts';
import {
  type Citation,
  citedStatements,
  type DroppedCitation,
  resolveCitations,
  type Statement,
} from '#src/domain/citations.ts';
import { type AnalyzeText, contentStems } from '#src/domain/text-analysis.ts';
import type { Actor } from '#src/domain/visibility.ts';
import type { RetrievalService, RetrievedChunk } from '#src/modules/retrieval/retrieval.service.ts';
import type { Embedder } from '#src/ports/embedder.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';

/** The answer is written and somebody waits: without embeddings in this time the words decide. */
const embeddingTimeoutMs = 5_000;
/** A longer reply's later statements are checked by their words. */
const embeddedStatements = 64;

export type Citer = ReturnType<typeof createCiter>;

/** Finds out which passages a reply rests on. Passage n of the prompt is `chunks[n - 1]`. */
export function createCiter(deps: {
  retrieval: Pick<RetrievalService, 'stillReadable'>;
  embedder: Embedder;
  vectors: Pick<VectorStore, 'fetch'>;
  analyze: AnalyzeText;
  logger: Logger;
}) {
  const { retrieval, embedder, vectors, analyze, logger } = deps;

  async function similarities(
    actor: Actor,
    statements: readonly Statement[],
    chunks: readonly RetrievedChunk[],
  ): Promise<(statement: Statement, passage: { chunkId: string }) => number> {
    const embedded = statements.filter((statement) => statement.text !== '').slice(0, embeddedStatements);
    if (embedded.length === 0) return () => 0;
    try {
      const [statementVectors, chunkVectors] = await Promise.all([
        embedder.embed(
          embedded.map((statement) => statement.text),
          { signal: AbortSignal.timeout(embeddingTimeoutMs) },
        ),
        vectors.fetch({ orgId: actor.orgId, model: embedder.model, chunkIds: chunks.map((chunk) => chunk.chunkId) }),
      ]);
      const vectorOf = new Map(embedded.map((statement, index) => [statement, statementVectors[index]]));
      return (statement, passage) => {
        const a = vectorOf.get(statement);
        const b = chunkVectors.get(passage.chunkId);
        return a === undefined || b === undefined ? 0 : cosine(a, b);
      };
    } catch (error) {
      logger.warn({ err: error }, 'citations are checked by words alone');
      return () => 0;
    }
  }

  return async (input: {
    actor: Actor;
    reply: string;
    chunks: readonly RetrievedChunk[];
  }): Promise<{ citations: Citation[]; dropped: DroppedCitation[] }> => {
    const { actor, reply, chunks } = input;
    if (chunks.length === 0) return { citations: [], dropped: [] };
    const statements = citedStatements(reply);
    const [similarity, readable] = await Promise.all([
      similarities(actor, statements, chunks),
      // Documents may have changed hands, or generations, while the answer was written.
      retrieval.stillReadable(
        actor,
        chunks.map((chunk) => chunk.chunkId),
      ),
    ]);
    const passages = chunks.map((chunk, index) => ({
      number: index + 1,
      chunkId: chunk.chunkId,
      documentId: chunk.documentId,
      isReadable: readable.has(chunk.chunkId),
      text: chunk.content,
    }));
    return resolveCitations(statements, passages, {
      similarity,
      contentWords: (text) => contentStems(analyze(text)),
    });
  };
}
