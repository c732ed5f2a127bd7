import type { Actor } from '#src/domain/access/visibility.ts';

export const RELOAD_ACTORS_INTERVAL_MS = 2_000;

/** A client that waits for changes of jobs; `actor` is null if its rights need no check. */
export type WatchingUser = { actor: Actor | null; onAccountGone: () => void };

/**
 * Reads the current rights of all watching users by one query, and reports users whose account is no longer active.
 * @param findActors leaves out users whose account is no longer active
 */
export async function reloadActors(
  watching: Iterable<WatchingUser>,
  findActors: (userIds: readonly string[]) => Promise<Actor[]>,
): Promise<void> {
  const asked = [...watching].flatMap((watcher) => (watcher.actor === null ? [] : [{ watcher, ...watcher.actor }]));
  if (asked.length === 0) return;
  const found = new Map(
    (await findActors([...new Set(asked.map(({ userId }) => userId))])).map((actor) => [actor.userId, actor]),
  );
  for (const { watcher, userId } of asked) {
    const actor = found.get(userId);
    if (actor === undefined) watcher.onAccountGone();
    else watcher.actor = actor;
  }
}
