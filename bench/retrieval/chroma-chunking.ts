import { csvRecords } from './csv-records.ts';
import { readDataset } from './datasets.ts';
import type { Span } from './metrics.ts';

/** A question about a corpus; `wanted` are the text spans that answer it. */
export type ChunkingQuestion = { text: string; corpus: string; wanted: Span[] };

export type ChromaChunking = { corpora: ReadonlyMap<string, string>; questions: ChunkingQuestion[] };

const corpusNames = ['finance', 'pubmed', 'wikitexts'];

/** Three long texts and 340 questions (Smith and Troynikov, Chroma 2024), normalized as the product stores text. */
export function readChromaChunking(): ChromaChunking {
  const kept = new Map(corpusNames.map((name) => [name, withoutBlanks(readDataset('chroma_chunking', `${name}.md`))]));
  const questions = csvRecords(readDataset('chroma_chunking', 'questions.csv'))
    .slice(1)
    .map(([text = '', references = '', corpus = '']) => {
      const spans: { start_index: number; end_index: number }[] = JSON.parse(references);
      const at = (offset: number) => kept.get(corpus)?.place(offset) ?? 0;
      return { text, corpus, wanted: spans.map((span) => ({ start: at(span.start_index), end: at(span.end_index) })) };
    });
  return { corpora: new Map([...kept].map(([name, { text }]) => [name, text])), questions };
}

/**
 * Removes trailing blanks and repeated empty lines as the converter does; `place` maps offsets of the original text.
 */
function withoutBlanks(text: string): { text: string; place(offset: number): number } {
  const removed: Span[] = [];
  for (const pattern of [/[^\S\n]+$/gm, /(?<=\n[^\S\n]*\n)(?:[^\S\n]*\n)+/g, /^\n+/g, /\n+$/g]) {
    for (const { index, 0: match } of text.matchAll(pattern)) removed.push({ start: index, end: index + match.length });
  }
  const isRemoved = new Uint8Array(text.length);
  for (const { start, end } of removed) isRemoved.fill(1, start, end);
  const before = new Uint32Array(text.length + 1);
  let kept = '';
  for (let offset = 0; offset < text.length; offset += 1) {
    if (isRemoved[offset] === 0) kept += text.charAt(offset);
    before[offset + 1] = kept.length;
  }
  return { text: kept, place: (offset) => before[offset] ?? kept.length };
}
