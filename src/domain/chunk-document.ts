import { type Chunk, chunkBody } from './chunking.ts';
import { contextualText } from './contextual-text.ts';
import { pageNumberAt } from './page-map.ts';
import type { RagConfig } from './rag-config.ts';
import { chunkSemantically } from './semantic-chunking.ts';
import { type AnalyzeText, contentStems } from './text-analysis.ts';
import type { TokenCounter } from './tokens.ts';

/**
 * `pageMap` holds the offset of each page in the body; null for a format without pages. `situations` are what a model
 * says of each chunk, in order; empty where it says nothing.
 */
export type ChunkSource = {
  documentName: string;
  body: string;
  pageMap: number[] | null;
  chunking: RagConfig['chunking'];
  situations?: readonly string[];
};

/** A chunk with all that is stored of it. `terms` says how often each stem occurs in context and content. */
export type IndexedChunk = Chunk & {
  contextualText: string;
  pageNumber: number;
  terms: ReadonlyMap<string, number>;
  termCount: number;
};

/** What is embedded and indexed: where the chunk stands, then what it says. */
export function indexedText(chunk: Pick<IndexedChunk, 'contextualText' | 'content'>): string {
  return `${chunk.contextualText}\n${chunk.content}`;
}

/**
 * The chunks of a document, in order. The same input gives the same chunks.
 * @param distances those of `chunkSemantically`; not looked at when the document is chunked by tokens
 */
export function* chunkDocument(
  source: ChunkSource,
  distances: readonly number[],
  deps: { tokens: TokenCounter; analyze: AnalyzeText },
): Generator<IndexedChunk> {
  const { body, documentName, pageMap, situations = [] } = source;
  const { method, ...size } = source.chunking;
  const chunks =
    method === 'semantic'
      ? chunkSemantically(body, { method, ...size }, distances, deps)
      : chunkBody(body, { method, ...size }, deps);
  for (const chunk of chunks) {
    const pageNumber = pageNumberAt(pageMap, chunk.contentOffset);
    const context = contextualText({
      documentName,
      headingPath: chunk.headingPath,
      pageNumber,
      situation: situations[chunk.index],
    });
    const stems = contentStems(deps.analyze(indexedText({ contextualText: context, content: chunk.content })));
    yield { ...chunk, contextualText: context, pageNumber, terms: countEach(stems), termCount: stems.length };
  }
}

function countEach(words: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
