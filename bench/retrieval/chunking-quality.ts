import type { RagConfig } from '../../src/domain/documents/rag-config.ts';
import { average } from './bootstrap.ts';
import { readChromaChunking } from './chroma-chunking.ts';
import type { Library } from './library.ts';
import { type Span, type SpanOverlap, spanOverlap } from './metrics.ts';

type Chunking = RagConfig['chunking'];

export type MeasuredChunking = Chunking & { isReranked: boolean; chunks: number; overlaps: SpanOverlap[] };

const settings: readonly Chunking[] = [
  { method: 'token', targetTokens: 400, overlapTokens: 60 },
  { method: 'token', targetTokens: 200, overlapTokens: 0 },
  { method: 'token', targetTokens: 250, overlapTokens: 125 },
  { method: 'token', targetTokens: 800, overlapTokens: 400 },
  { method: 'semantic', targetTokens: 400, overlapTokens: 0 },
];
const depth = 5;

/**
 * Measures each chunking strategy: asks every question against all three texts by hybrid search, and for the first
 * strategy also with reranking.
 */
export async function measureChunking(library: Library): Promise<MeasuredChunking[]> {
  const { corpora, questions } = readChromaChunking();
  const starts = startsInOneRow(corpora);
  const moved = ({ start, end }: Span, corpus: string): Span => {
    const offset = starts.get(corpus) ?? 0;
    return { start: start + offset, end: end + offset };
  };
  const measured: MeasuredChunking[] = [];
  for (const [index, chunking] of settings.entries()) {
    if (index === 0) await library.add([...corpora].map(([name, text]) => ({ id: name, name, text })));
    else {
      await library.configure({ chunking });
      await library.reingest();
    }
    const passages = await library.passages();
    // Reranking takes seconds for each question, so only the first chunking strategy is measured with it.
    for (const reranking of index === 0 ? ([null, 'cross_encoder'] as const) : [null]) {
      const overlaps: SpanOverlap[] = [];
      for (const { text, corpus, wanted } of questions) {
        const { chunkIds } = await library.rank(text, reranking);
        const found = chunkIds.slice(0, depth).flatMap((id) => {
          const passage = passages.get(id);
          return passage ? [moved(passage, passage.source)] : [];
        });
        overlaps.push(
          spanOverlap(
            found,
            wanted.map((span) => moved(span, corpus)),
          ),
        );
      }
      measured.push({ ...chunking, isReranked: reranking !== null, chunks: passages.size, overlaps });
    }
  }
  return measured;
}

/** Start offset of each text in the concatenation of all texts, so that a span also identifies its text. */
function startsInOneRow(corpora: ReadonlyMap<string, string>): Map<string, number> {
  let next = 0;
  return new Map(
    [...corpora].map(([name, text]) => {
      const start = next;
      next += text.length;
      return [name, start];
    }),
  );
}

export function reportChunking(measured: readonly MeasuredChunking[]): string[] {
  const percent = (values: readonly number[]) => `${(100 * average(values)).toFixed(1)} %`;
  return [
    `| | chunks | recall | precision | IoU |`,
    '|---|---|---|---|---|',
    ...measured.map(({ method, targetTokens, overlapTokens, isReranked, chunks, overlaps }) => {
      const name = `${method} ${targetTokens}/${overlapTokens}${isReranked ? ', reranked' : ''}`;
      const figures = (['recall', 'precision', 'iou'] as const).map((measure) =>
        percent(overlaps.map((overlap) => overlap[measure])),
      );
      return `| ${[name, chunks, ...figures].join(' | ')} |`;
    }),
  ];
}
