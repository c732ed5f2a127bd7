/** The place of a version in its draft's chain: each has one parent (the root none) and at most one child. */
export type ChainLink = { id: string; parentVersionId: string | null };

export type CommitPlan =
  | { outcome: 'commit'; deletedIds: string[] }
  | { outcome: 'parent_missing' }
  | { outcome: 'parent_has_descendants' };

export type RemovalPlan =
  /** `childId` comes under `parentId` then; `headId` is the end of what is left. */
  | { outcome: 'remove'; childId: string | null; parentId: string | null; headId: string }
  | { outcome: 'version_missing' }
  | { outcome: 'last_version' };

/** All that come after `id`, nearest first. */
export function descendantsOf(chain: readonly ChainLink[], id: string): string[] {
  const childOf = new Map(chain.map((link) => [link.parentVersionId, link.id]));
  const found: string[] = [];
  for (let next = childOf.get(id); next !== undefined; next = childOf.get(next)) found.push(next);
  return found;
}

/**
 * What committing a version under `parentId` means. The chain stays linear: a parent with descendants refuses,
 * or loses all of them when `force` is set.
 */
export function planCommit(chain: readonly ChainLink[], parentId: string, force: boolean): CommitPlan {
  if (!chain.some((link) => link.id === parentId)) return { outcome: 'parent_missing' };
  const deletedIds = descendantsOf(chain, parentId);
  if (deletedIds.length > 0 && !force) return { outcome: 'parent_has_descendants' };
  return { outcome: 'commit', deletedIds };
}

/** What deleting one version means: what comes after it goes on under its parent, or begins the chain. */
export function planRemoval(chain: readonly ChainLink[], id: string): RemovalPlan {
  const removed = chain.find((link) => link.id === id);
  if (removed === undefined) return { outcome: 'version_missing' };
  const { parentVersionId: parentId } = removed;
  const descendants = descendantsOf(chain, id);
  const headId = descendants.at(-1) ?? parentId;
  if (headId === null) return { outcome: 'last_version' };
  return { outcome: 'remove', childId: descendants[0] ?? null, parentId, headId };
}

/** Titles are free; an omitted or blank one is the version's number. */
export function versionTitle(title: string | undefined, versionNumber: number): string {
  return title?.trim() || `v${versionNumber}`;
}
