import type { Actor } from '#src/domain/access/visibility.ts';
import type { FoundText } from '#src/domain/retrieval/search-ranking.ts';
import { type AnalyzeText, hasPhrase } from '#src/domain/text/words.ts';
import type { PassageHit, RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import type { PassagePlace } from './search.model.ts';
import type { SearchRepository } from './search.repository.ts';
import type { SearchQuery } from './search-query.ts';

/** Of so many passages the texts are read, to see whether the words stand beside each other; of more for a phrase. */
const passagesRead = { words: 60, phrase: 200 };

/** What of a document has the words, best first. */
type TextMatch = { updatedAt: Date; text: FoundText; passages: readonly PassagePlace[] };

type Passage = PassageHit & Pick<FoundText, 'coverage'>;

const order = { phrase: 2, all: 1, some: 0 };

/** Finds documents by their texts. */
export function createTextSearch(deps: {
  retrieval: Pick<RetrievalService, 'searchPassages'>;
  repository: Pick<SearchRepository, 'loadPassages'>;
  analyze: AnalyzeText;
}) {
  const { retrieval, repository, analyze } = deps;

  /** Those of the first passages that have all of the phrases, or, where there are none, the whole query as it is. */
  async function findPhrases(actor: Actor, hits: readonly PassageHit[], query: SearchQuery): Promise<Set<string>> {
    const isQuoted = query.phrases.length > 0;
    const phrases = isQuoted ? query.phrases : [query.terms];
    if (!isQuoted && query.terms.length < 2) return new Set();
    const first = hits
      .toSorted((a, b) => b.termCount - a.termCount || b.score - a.score)
      .slice(0, isQuoted ? passagesRead.phrase : passagesRead.words);
    const passages = await repository.loadPassages(actor, first);
    const having = passages.filter(({ content }) => {
      const text = analyze(content);
      return phrases.every((phrase) => hasPhrase(text, phrase));
    });
    return new Set(having.map(placeOf));
  }

  return async (actor: Actor, query: SearchQuery): Promise<Map<string, TextMatch>> => {
    const hits = await retrieval.searchPassages(actor, query.text);
    const withPhrases = await findPhrases(actor, hits, query);
    const passages = hits.flatMap((hit): Passage[] => {
      if (withPhrases.has(placeOf(hit))) return [{ ...hit, coverage: 'phrase' }];
      if (query.phrases.length > 0) return [];
      return [{ ...hit, coverage: hit.termCount === query.stems.size ? 'all' : 'some' }];
    });
    const matches = Array.from(Map.groupBy(passages, ({ documentId }) => documentId).values(), bestFirst);
    return new Map(matches.flatMap((own) => (own[0] === undefined ? [] : [[own[0].documentId, matchOf(own[0], own)]])));
  };
}

function matchOf({ updatedAt, score, coverage }: Passage, passages: readonly Passage[]): TextMatch {
  return { updatedAt, text: { score, coverage }, passages };
}

function bestFirst(passages: readonly Passage[]): Passage[] {
  return passages.toSorted((a, b) => order[b.coverage] - order[a.coverage] || b.score - a.score);
}

/** The same for the same place. */
export function placeOf({ documentId, generation, chunkIndex }: PassagePlace): string {
  return `${documentId} ${generation} ${chunkIndex}`;
}
