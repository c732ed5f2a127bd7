import { defaultRagConfig, type RagConfig } from '#src/domain/documents/rag-config.ts';
import type { DocumentGroup } from './retrieval.model.ts';

/**
 * Groups that are searched together, because their settings only differ in `rrf_k`, which does not affect searching. Limits and
 * minimum similarity apply to all of them together.
 */
export type Search = {
  /** Unique within a query. */
  key: string;
  groups: readonly DocumentGroup[];
  settings: Omit<RagConfig['retrieval'], 'rrfK'>;
  embeddingModel: string;
};

/** Bounds the cost of one question. Documents that are configured by hand have three or four configurations. */
export const maxOwnSearches = 16;

/**
 * Chooses the searches that use their own settings: all, or the largest if there are too many.
 * @param count returns the number of readable documents by group signature
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
  // Ties by key, so that a repeated question gets the same answer.
  const largest = sizes.sort((a, b) => b.size - a.size || (a.key < b.key ? -1 : 1)).slice(0, maxOwnSearches);
  return new Set(largest.map(({ key }) => key));
}

/** Groups without a search of their own are searched with the default settings, together per embedding model. */
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
