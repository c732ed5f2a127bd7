import type { Actor } from '#src/domain/access/visibility.ts';
import { fileExtension } from '#src/domain/documents/formats.ts';
import { matchName, type NameMatch, wantedName } from '#src/domain/retrieval/search-ranking.ts';
import { type AnalyzeText, hasPhrase } from '#src/domain/text/words.ts';
import type { NamesRepository } from './names.repository.ts';
import type { SearchQuery } from './search-query.ts';

type FoundName = { updatedAt: Date; match: NameMatch };

/** Finds documents by their names. */
export function createNameSearch({ names, analyze }: { names: NamesRepository; analyze: AnalyzeText }) {
  return async (actor: Actor, query: SearchQuery): Promise<Map<string, FoundName>> => {
    const { key, readsFew, readsPart } = await names.prepare(actor, query.text);
    const wanted = wantedName(key);
    if (wanted.words.length === 0) return new Map();
    const candidates = await (readsFew ? names.listReadable(actor) : names.listCandidates(actor, wanted, readsPart));
    return new Map(
      candidates.flatMap(({ documentId, name, nameKey, updatedAt }): [string, FoundName][] => {
        const match = matchName(wanted, { key: nameKey, extension: fileExtension(name) });
        if (match === null) return [];
        const words = query.phrases.length === 0 ? [] : analyze(name);
        return query.phrases.every((phrase) => hasPhrase(words, phrase)) ? [[documentId, { updatedAt, match }]] : [];
      }),
    );
  };
}
