/** A version in its draft's chain: it has one parent (the root has none) and at most one child. */
export type ChainLink = { id: string; parentVersionId: string | null };

export type CommitPlan =
  | { outcome: 'commit'; deletedIds: string[] }
  | { outcome: 'parent_missing' }
  | { outcome: 'parent_has_descendants' };

export type RemovalPlan =
  /** `childId` becomes the child of `parentId`; `headId` is the new head. */
  | { outcome: 'remove'; childId: string | null; parentId: string | null; headId: string }
  | { outcome: 'version_missing' }
  | { outcome: 'last_version' };

/** @returns the versions after `id`, nearest first */
export function descendantsOf(chain: readonly ChainLink[], id: string): string[] {
  const childOf = new Map(chain.map((link) => [link.parentVersionId, link.id]));
  const found: string[] = [];
  for (let next = childOf.get(id); next !== undefined; next = childOf.get(next)) found.push(next);
  return found;
}

/**
 * Plans a commit under `parentId`. The chain stays linear: if the parent has descendants, the commit is rejected, or
 * deletes them when `force` is set.
 */
export function planCommit(chain: readonly ChainLink[], parentId: string, force: boolean): CommitPlan {
  if (!chain.some((link) => link.id === parentId)) return { outcome: 'parent_missing' };
  const deletedIds = descendantsOf(chain, parentId);
  if (deletedIds.length > 0 && !force) return { outcome: 'parent_has_descendants' };
  return { outcome: 'commit', deletedIds };
}

/** Plans the deletion of one version: its child moves to its parent, or becomes the root. */
export function planRemoval(chain: readonly ChainLink[], id: string): RemovalPlan {
  const removed = chain.find((link) => link.id === id);
  if (removed === undefined) return { outcome: 'version_missing' };
  const { parentVersionId: parentId } = removed;
  const descendants = descendantsOf(chain, id);
  const headId = descendants.at(-1) ?? parentId;
  if (headId === null) return { outcome: 'last_version' };
  return { outcome: 'remove', childId: descendants[0] ?? null, parentId, headId };
}

/** A missing or blank title becomes `v` and the version's number. */
export function versionTitle(title: string | undefined, versionNumber: number): string {
  return title?.trim() || `v${versionNumber}`;
}
