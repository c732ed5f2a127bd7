import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Knex } from 'knex';
import { analyzerVersion, countTerms, indexedTextOfChunk } from '#src/domain/documents/chunk-document.ts';
import type { ChunkTermCounts } from '#src/domain/retrieval/bm25.ts';
import type { TextAnalyzer } from '#src/domain/text/words.ts';
import type { LanguageDetector } from '#src/ports/documents.ts';
import { createReindexingRepository, type OutdatedGeneration } from './reindexing.repository.ts';

const DOCUMENTS_PER_PAGE = 100;
/** Chunks that are analyzed before other tasks of the process get their turn: about 20 ms. */
const CHUNKS_PER_TURN = 100;

/** Matches text whose terms depend on more than the English analysis. */
const nonLatinLetter = /[\p{L}--\p{Script=Latin}]/v;

/** Indexes the words of documents again that an older version of the text analyzer has indexed. */
export function createReindexingService(deps: { db: Knex; analyze: TextAnalyzer; detectLanguage: LanguageDetector }) {
  const { db, analyze, detectLanguage } = deps;
  const repository = createReindexingRepository(db);

  async function reindex(of: OutdatedGeneration): Promise<void> {
    const texts = await repository.readTexts(of);
    const language = await detectLanguage(texts.map(({ content }) => content).join('\n'));
    const isEnglish = language === 'en' || language === 'und';
    const indexed = texts.map(indexedTextOfChunk);
    const isUnchanged = of.analyzerVersion === 1 && isEnglish && !indexed.some((text) => nonLatinLetter.test(text));
    const chunks: ChunkTermCounts[] = [];
    for (const [position, text] of isUnchanged ? [] : indexed.entries()) {
      if (position % CHUNKS_PER_TURN === 0) await nextTurn();
      chunks.push({ index: texts[position]?.chunkIndex ?? 0, ...countTerms(text, language, analyze) });
    }
    await db.transaction(async (trx) => {
      const ownRepository = createReindexingRepository(trx);
      const isLocked = await ownRepository.markIndexed(of, { language, analyzerVersion });
      if (isLocked && !isUnchanged) await ownRepository.replaceWords(of, chunks);
    });
  }

  return {
    async reindexOutdated(): Promise<void> {
      let after: string | null = null;
      do {
        const page: OutdatedGeneration[] = await repository.listOutdated(analyzerVersion, after, DOCUMENTS_PER_PAGE);
        for (const generation of page) await reindex(generation);
        after = page.length < DOCUMENTS_PER_PAGE ? null : (page.at(-1)?.documentId ?? null);
      } while (after !== null);
    },
  };
}
