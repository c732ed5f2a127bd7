import { v5 as uuidv5 } from 'uuid';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { type Chunk, chunkBody } from '#src/domain/chunking.ts';
import { contextualText } from '#src/domain/contextual-text.ts';
import { pageNumberAt } from '#src/domain/page-map.ts';
import type { RagConfig } from '#src/domain/rag-config.ts';
import { type AnalyzeText, contentStems } from '#src/domain/text-analysis.ts';
import type { TokenCounter } from '#src/domain/tokens.ts';
import type { ChunkText, NewChunk } from './ingestion.model.ts';

/** Follows from the place and never from the text, so that a repeated step meets its own rows and points. */
export function chunkId(of: IngestDocumentInput, index: number): string {
  return uuidv5(`${of.generation}:${index}`, of.documentId);
}

/** What is embedded and indexed: where the chunk stands, then what it says. */
export function indexedText(chunk: Pick<ChunkText, 'contextualText' | 'content'>): string {
  return `${chunk.contextualText}\n${chunk.content}`;
}

/** The chunks of a document with all that is stored of them. The same input gives the same rows. */
export function chunkDocument(
  of: IngestDocumentInput,
  source: { documentName: string; body: string; pageMap: number[] | null; chunking: RagConfig['chunking'] },
  deps: { tokens: TokenCounter; analyze: AnalyzeText },
): NewChunk[] {
  const { targetTokens, overlapTokens } = source.chunking;
  const chunks = chunkBody(source.body, { method: 'token', targetTokens, overlapTokens }, deps);
  return chunks.map((chunk: Chunk) => {
    const pageNumber = pageNumberAt(source.pageMap, chunk.contentOffset);
    const context = contextualText({
      documentName: source.documentName,
      headingPath: chunk.headingPath,
      pageNumber,
    });
    const stems = contentStems(deps.analyze(indexedText({ contextualText: context, content: chunk.content })));
    return {
      id: chunkId(of, chunk.index),
      chunkIndex: chunk.index,
      content: chunk.content,
      contextualText: context,
      chunkKind: chunk.chunkKind,
      tokenCount: chunk.tokenCount,
      contentOffset: chunk.contentOffset,
      pageNumber,
      terms: countEach(stems),
      termCount: stems.length,
    };
  });
}

function countEach(words: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
