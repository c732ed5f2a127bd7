import type { Knex } from 'knex';
import type { Actor } from '#src/domain/access/visibility.ts';
import { fileExtension } from '#src/domain/documents/formats.ts';
import {
  type DocumentNameMatch,
  type FoundPassage,
  matchDocumentName,
  rankDocuments,
  toDocumentNameQuery,
} from '#src/domain/retrieval/document-search.ts';
import { highlightBestPassage, previewOfBeginning } from '#src/domain/retrieval/search-preview.ts';
import {
  containsTermPhrase,
  contentStems,
  quotedPhrases,
  type StemmedTerm,
  type TextAnalyzer,
} from '#src/domain/text/words.ts';
import type { PassageHit, RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import type { FairWorkQueue } from '#src/ports/load-control.ts';
import type { DocumentSearchHit, PassagePositionInDocument } from './search.model.ts';
import { createSearchRepository } from './search.repository.ts';

/** Maximum number of passages checked for the query as a phrase (`words`) or for quoted phrases (`phrase`). */
const passagesChecked = { words: 60, phrase: 200 };

type AnalyzedQuery = {
  terms: readonly StemmedTerm[];
  stems: ReadonlySet<string>;
  phrases: readonly (readonly StemmedTerm[])[];
};

/** A query, analyzed by the language of the document that it is compared with. */
type SearchQuery = { text: string; isQuoted: boolean; in(language?: string): AnalyzedQuery };

type NameHit = { updatedAt: Date; match: DocumentNameMatch };
/** A document found by its text; `passages` contain query words, best first. */
type TextHit = { updatedAt: Date; text: FoundPassage; passages: readonly PassageHit[] };
type RatedPassage = PassageHit & Pick<FoundPassage, 'coverage'>;

export type SearchService = ReturnType<typeof createSearchService>;

export function createSearchService(deps: {
  db: Knex;
  retrieval: Pick<RetrievalService, 'searchPassages'>;
  analyze: TextAnalyzer;
  /** Queue that limits concurrent searches, so that other requests get database connections. */
  inTurn: FairWorkQueue;
}) {
  const { db, retrieval, analyze, inTurn } = deps;
  const repository = createSearchRepository(db);

  async function findNames(actor: Actor, query: SearchQuery): Promise<Map<string, NameHit>> {
    const { key, readsFew, readsPart } = await repository.prepareNames(actor, query.text);
    const wanted = toDocumentNameQuery(key);
    if (wanted.words.length === 0) return new Map();
    const candidates = await (readsFew
      ? repository.listReadableNames(actor)
      : repository.listNameCandidates(actor, wanted, readsPart));
    return new Map(
      candidates.flatMap(({ documentId, name, nameKey, updatedAt }): [string, NameHit][] => {
        const match = matchDocumentName(wanted, { key: nameKey, extension: fileExtension(name) });
        if (match === null) return [];
        const words = query.isQuoted ? analyze(name) : [];
        return query.in().phrases.every((phrase) => containsTermPhrase(words, phrase))
          ? [[documentId, { updatedAt, match }]]
          : [];
      }),
    );
  }

  async function findTexts(actor: Actor, query: SearchQuery): Promise<Map<string, TextHit>> {
    const hits = await retrieval.searchPassages(actor, query.text);
    const withPhrases = await findPhrases(actor, hits, query);
    const passages = hits.flatMap((hit): RatedPassage[] => {
      if (withPhrases.has(positionKey(hit))) return [{ ...hit, coverage: 'phrase' }];
      if (query.isQuoted) return [];
      return [{ ...hit, coverage: hit.termCount >= query.in(hit.language).stems.size ? 'all' : 'some' }];
    });
    const byDocument = Array.from(Map.groupBy(passages, ({ documentId }) => documentId).values(), bestFirst);
    return new Map(
      byDocument.flatMap((own) => (own[0] === undefined ? [] : [[own[0].documentId, textHit(own[0], own)]])),
    );
  }

  /**
   * @returns the keys of the passages that contain all quoted phrases; if none is quoted, of those that contain the
   * whole query
   */
  async function findPhrases(actor: Actor, hits: readonly PassageHit[], query: SearchQuery): Promise<Set<string>> {
    const { isQuoted } = query;
    if (!isQuoted && query.in().terms.length < 2) return new Set();
    const first = hits
      .toSorted((a, b) => b.termCount - a.termCount || b.score - a.score)
      .slice(0, isQuoted ? passagesChecked.phrase : passagesChecked.words);
    const languages = new Map(first.map(({ documentId, language }) => [documentId, language]));
    const passages = await repository.loadPassages(actor, first);
    const matching = passages.filter(({ documentId, content }) => {
      const language = languages.get(documentId);
      const { terms, phrases } = query.in(language);
      const text = analyze(content, language);
      return (isQuoted ? phrases : [terms]).every((phrase) => containsTermPhrase(text, phrase));
    });
    return new Set(matching.map(positionKey));
  }

  async function previewsOf(actor: Actor, query: SearchQuery, positions: readonly PassageHit[]) {
    const matchers = new Map<string, (word: string) => string | undefined>();
    const passages = await repository.loadPassages(actor, positions);
    const contents = new Map(passages.map((passage) => [positionKey(passage), passage.content]));
    const previews = new Map<string, string>();
    for (const position of positions) {
      if (previews.has(position.documentId)) continue;
      const { language } = position;
      const matchedStem = matchers.get(language) ?? stemMatcher(query, language, analyze);
      matchers.set(language, matchedStem);
      const preview = highlightBestPassage(contents.get(positionKey(position)) ?? '', matchedStem);
      if (preview !== null) previews.set(position.documentId, preview);
    }
    return previews;
  }

  return {
    /** Searches documents; returns at most the best five hundred. Throws `service_unavailable` on timeout. */
    async search(
      actor: Actor,
      text: string,
      { limit, offset }: { limit: number; offset: number },
    ): Promise<{ items: DocumentSearchHit[]; total: number }> {
      if (text.trim() === '') return { items: [], total: 0 };
      const query = parseQuery(text, analyze);
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
      const positions = ids.flatMap((id) => texts.get(id)?.passages ?? []);
      const [rows, previews] = await Promise.all([
        repository.loadRows(actor, ids),
        previewsOf(actor, query, positions),
      ]);
      const rowOf = new Map(rows.map((row) => [row.id, row]));
      const items = page.flatMap(({ documentId, rank }): DocumentSearchHit[] => {
        const row = rowOf.get(documentId);
        if (row === undefined) return [];
        const { beginning, ...shown } = row;
        return [{ ...shown, rank, preview: previews.get(documentId) ?? previewOfBeginning(beginning) }];
      });
      return { items, total: ranked.length };
    },
  };
}

function parseQuery(text: string, analyze: TextAnalyzer): SearchQuery {
  const quoted = quotedPhrases(text);
  const analyzed = new Map<string | undefined, AnalyzedQuery>();
  return {
    text,
    isQuoted: quoted.length > 0,
    in(language) {
      const known = analyzed.get(language);
      if (known !== undefined) return known;
      const terms = analyze(text, language);
      const phrases = quoted.map((phrase) => analyze(phrase, language));
      const query = { terms, stems: new Set(contentStems(terms)), phrases };
      analyzed.set(language, query);
      return query;
    },
  };
}

function textHit({ updatedAt, score, coverage }: RatedPassage, passages: readonly RatedPassage[]): TextHit {
  return { updatedAt, text: { score, coverage }, passages };
}

const coverageOrder = { phrase: 2, all: 1, some: 0 };

function bestFirst(passages: readonly RatedPassage[]): RatedPassage[] {
  return passages.toSorted((a, b) => coverageOrder[b.coverage] - coverageOrder[a.coverage] || b.score - a.score);
}

function positionKey({ documentId, generation, chunkIndex }: PassagePositionInDocument): string {
  return `${documentId} ${generation} ${chunkIndex}`;
}

/** Returns a cached function that maps a word of a text to the query stem that it matches. */
function stemMatcher(
  query: SearchQuery,
  language: string,
  analyze: TextAnalyzer,
): (word: string) => string | undefined {
  const { stems } = query.in(language);
  const known = new Map<string, string | undefined>();
  return (word) => {
    if (!known.has(word)) {
      const stem = analyze(word, language)[0]?.stem ?? '';
      known.set(word, stems.has(stem) ? stem : undefined);
    }
    return known.get(word);
  };
}
