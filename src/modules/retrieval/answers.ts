import { byScoreThenId, type LegHit, type RetrievalGroup } from '#src/domain/retrieval/fusion.ts';
import type { Leg } from './leg-search.ts';

/** What a leg found, and what of that Postgres confirms: readable now, active, and of the settings searched by. */
export type Answer = Leg & { found: readonly LegHit[]; confirmed: readonly ConfirmedHit[] };

/** `rrfK` is that of the hit's document, by which it is fused. */
export type ConfirmedHit = LegHit & { rrfK: number };

/** @param signatures of the groups that the hits' documents are in, as Postgres has them now */
export function confirm(leg: Leg, found: readonly LegHit[], signatures: ReadonlyMap<string, string>): Answer {
  const rrfKs = new Map(leg.search.groups.map(({ signature, settings }) => [signature, settings.rrfK]));
  const confirmed = found.flatMap((hit): ConfirmedHit[] => {
    const rrfK = rrfKs.get(signatures.get(hit.id) ?? '');
    return rrfK === undefined ? [] : [{ ...hit, rrfK }];
  });
  return { ...leg, found, confirmed: confirmed.slice(0, leg.limit) };
}

/** What a second look found stands beside what the first one did, each hit once. */
export function join(answers: readonly Answer[]): Answer[] {
  const byLeg = Map.groupBy(answers, ({ search, kind }) => `${kind} ${search.key}`);
  return Array.from(byLeg.values()).flatMap(([first, second]) => {
    if (first === undefined || second === undefined) return first ?? [];
    const hits = new Map([...first.confirmed, ...second.confirmed].map((hit) => [hit.id, hit]));
    return { ...first, confirmed: [...hits.values()].sort(byScoreThenId).slice(0, first.limit) };
  });
}

/** Those of one search that are fused alike are a group. */
export function groupsOf(answers: readonly Answer[]): RetrievalGroup[] {
  const bySearch = Map.groupBy(answers, ({ search }) => search.key);
  return Array.from(bySearch.values()).flatMap((legs) => {
    const rrfKs = new Set(legs.flatMap(({ confirmed }) => confirmed.map(({ rrfK }) => rrfK)));
    return Array.from(rrfKs, (rrfK) => ({
      rrfK,
      legs: new Map(legs.map((leg) => [nameOf(leg), leg.confirmed.filter((hit) => hit.rrfK === rrfK)])),
    }));
  });
}

/** Scores of words are of one index, similarities of one model: these are the legs that groups share. */
function nameOf({ search, kind }: Leg): string {
  return kind === 'words' ? kind : `${kind} of ${search.embeddingModel}`;
}
