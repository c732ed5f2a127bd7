import { defaultRagConfig, type RagConfig } from '#src/domain/documents/rag-config.ts';
import type { DocumentGroup } from './retrieval.model.ts';

/**
 * Groups that are searched together, since what their settings differ in (`rrf_k`) changes no search: one by words and
 * one by vectors, as the mode wants it. The limits and the minimum similarity hold for all of them together.
 */
export type Search = {
  /** No two searches of a query have the same. */
  key: string;
  groups: readonly DocumentGroup[];
  settings: Omit<RagConfig['retrieval'], 'rrfK'>;
  embeddingModel: string;
};

/** More would make everybody wait for one question. Who sets documents up by hand has three ways, or four. */
export const maxOwnSearches = 16;

/**
 * Those of the groups' searches that may have their own settings; the largest ones, where there are too many.
 * @param count how many documents of each group may be read, by its signature
 */
export async function chooseOwnSearches(
  groups: readonly DocumentGroup[],
  count: () => Promise<ReadonlyMap<string, number>>,
): Promise<ReadonlySet<string>> {
  const alike = Map.groupBy(groups, keyOf);
  if (alike.size <= maxOwnSearches) return new Set(alike.keys());
  const counts = await count();
  const sizes = Array.from(alike, ([key, members]) => {
    return { key, size: members.reduce((sum, { signature }) => sum + (counts.get(signature) ?? 0), 0) };
  });
  // By key when they are equally large, so that a question asked again is answered in the same way.
  const largest = sizes.sort((a, b) => b.size - a.size || (a.key < b.key ? -1 : 1)).slice(0, maxOwnSearches);
  return new Set(largest.map(({ key }) => key));
}

/** Groups without a search of their own are searched together as new documents are, those of each model by themselves. */
export function planSearches(groups: readonly DocumentGroup[], own: ReadonlySet<string>): Search[] {
  const planned = groups.map((group) => {
    const key = keyOf(group);
    return own.has(key) ? { key, group } : { key: `others ${group.embeddingModel}`, group: asNew(group) };
  });
  return Array.from(Map.groupBy(planned, ({ key }) => key).values()).flatMap((members) => {
    const [first] = members;
    if (first === undefined) return [];
    const { key, group } = first;
    const { settings, embeddingModel } = group;
    return { key, groups: members.map((member) => member.group), settings, embeddingModel };
  });
}

function keyOf({ settings: { rrfK: _fusesOnly, ...searched }, embeddingModel }: DocumentGroup): string {
  return JSON.stringify([searched, embeddingModel]);
}

function asNew(group: DocumentGroup): DocumentGroup {
  const { retrieval } = defaultRagConfig({ embeddingModel: group.embeddingModel, hasReranker: false });
  return { ...group, settings: retrieval };
}
