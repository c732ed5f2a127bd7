import type { Knex } from 'knex';
import type { Actor } from '#src/domain/access/visibility.ts';
import { beginningOf, markedPassage } from '#src/domain/retrieval/search-preview.ts';
import { rankDocuments } from '#src/domain/retrieval/search-ranking.ts';
import type { AnalyzeText } from '#src/domain/text/words.ts';
import type { RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import type { FairQueue } from '#src/ports/limits.ts';
import { createNameSearch } from './name-search.ts';
import { createNamesRepository } from './names.repository.ts';
import type { PassagePlace, SearchHit } from './search.model.ts';
import { createSearchRepository } from './search.repository.ts';
import { readQuery, type SearchQuery } from './search-query.ts';
import { createTextSearch, placeOf } from './text-search.ts';

export type SearchService = ReturnType<typeof createSearchService>;

/** Finds documents by their names and by their texts, in one order. */
export function createSearchService(deps: {
  db: Knex;
  retrieval: Pick<RetrievalService, 'searchPassages'>;
  analyze: AnalyzeText;
  /** Searches leave connections of the database for the others. */
  inTurn: FairQueue;
}) {
  const { db, analyze, inTurn } = deps;
  const repository = createSearchRepository(db);
  const findNames = createNameSearch({ names: createNamesRepository(db), analyze });
  const findTexts = createTextSearch({ ...deps, repository });

  /** What is shown of each document's text, where one of its words is asked for: of the first passage that has any. */
  async function previewsOf(actor: Actor, query: SearchQuery, places: readonly PassagePlace[]) {
    const wantedAs = stemsAskedFor(query, analyze);
    const passages = await repository.loadPassages(actor, places);
    const contents = new Map(passages.map((passage) => [placeOf(passage), passage.content]));
    const previews = new Map<string, string>();
    for (const place of places) {
      if (previews.has(place.documentId)) continue;
      const preview = markedPassage(contents.get(placeOf(place)) ?? '', wantedAs);
      if (preview !== null) previews.set(place.documentId, preview);
    }
    return previews;
  }

  return {
    /** The best five hundred at most are found. Throws `service_unavailable` when it takes too long. */
    async search(
      actor: Actor,
      text: string,
      { limit, offset }: { limit: number; offset: number },
    ): Promise<{ items: SearchHit[]; total: number }> {
      if (text.trim() === '') return { items: [], total: 0 };
      const query = readQuery(text, analyze);
      const [names, texts] = await Promise.all([
        inTurn(actor.orgId, () => findNames(actor, query)),
        findTexts(actor, query),
      ]);
      const found = new Map<string, { updatedAt: Date }>([...names, ...texts]);
      const ranked = rankDocuments(
        Array.from(found, ([documentId, { updatedAt }]) => ({
          ...{ documentId, updatedAt, name: names.get(documentId)?.match ?? null },
          text: texts.get(documentId)?.text ?? null,
        })),
      );
      const page = ranked.slice(offset, offset + limit);
      const ids = page.map(({ documentId }) => documentId);
      const places = ids.flatMap((id) => texts.get(id)?.passages ?? []);
      const [rows, previews] = await Promise.all([repository.loadRows(actor, ids), previewsOf(actor, query, places)]);
      const rowOf = new Map(rows.map((row) => [row.id, row]));
      const items = page.flatMap(({ documentId, rank }): SearchHit[] => {
        const row = rowOf.get(documentId);
        if (row === undefined) return [];
        const { beginning, ...shown } = row;
        return [{ ...shown, rank, preview: previews.get(documentId) ?? beginningOf(beginning) }];
      });
      return { items, total: ranked.length };
    },
  };
}

/** Each different word is looked at once. */
function stemsAskedFor({ stems }: SearchQuery, analyze: AnalyzeText): (word: string) => string | undefined {
  const known = new Map<string, string | undefined>();
  return (word) => {
    if (!known.has(word)) {
      const stem = analyze(word)[0]?.stem ?? '';
      known.set(word, stems.has(stem) ? stem : undefined);
    }
    return known.get(word);
  };
}
