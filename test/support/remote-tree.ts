import { createHash, randomBytes } from 'node:crypto';

/** A file or folder at a fake provider. */
export type RemoteEntry = {
  readonly id: string;
  readonly isFolder: boolean;
  /** Type of the provider's own formats; `application/octet-stream` for other files. */
  readonly mimeType: string;
  name: string;
  /** Null for the root. */
  parentId: string | null;
  content: Buffer;
  /** Logical time of the last change of any kind. */
  changedAt: number;
  /** Logical time of the last change of the content. */
  contentAt: number;
  modified: Date;
  isDeleted: boolean;
};

export const plainType = 'application/octet-stream';

/**
 * The files of a fake provider, and the controls that tests have over them. Paths are names joined by slashes; the root
 * is ''.
 */
export function createRemoteFiles(
  pageSize: number,
  { newId = () => randomBytes(12).toString('hex'), ignoresCase = false } = {},
) {
  const entries = new Map<string, RemoteEntry>();
  /** Changes of entries. `leftPath` is the old path of an entry that was moved, renamed or deleted. */
  const events: { at: number; id: string; leftPath: string | null }[] = [];
  const downloads: string[] = [];
  let [clock, lastMs, maxPage, generation] = [1, 0, pageSize, 1];
  let listener: ((entry: RemoteEntry, before: number) => void) | null = null;

  function make(parentId: string | null, name: string, isFolder: boolean, mimeType = plainType): RemoteEntry {
    const times = { changedAt: clock, contentAt: clock, modified: new Date() };
    const empty = { content: Buffer.alloc(0), isDeleted: false };
    const entry = { id: newId(), name, parentId, isFolder, mimeType, ...times, ...empty };
    entries.set(entry.id, entry);
    return entry;
  }

  /** Records a change. */
  function touch(entry: RemoteEntry, leftPath: string | null = null): RemoteEntry {
    clock += 1;
    entry.changedAt = clock;
    events.push({ at: clock, id: entry.id, leftPath });
    return entry;
  }

  /** Undefined for entries that are deleted or below a deleted folder. */
  function get(id: string): RemoteEntry | undefined {
    const entry = entries.get(id);
    if (entry === undefined || entry.isDeleted) return undefined;
    return entry.parentId === null || get(entry.parentId) !== undefined ? entry : undefined;
  }

  const root = make(null, 'root', true);
  const children = (id: string) => [...entries.values()].filter((entry) => entry.parentId === id && !entry.isDeleted);
  const keyOf = (name: string) => (ignoresCase ? name.toLowerCase() : name);
  const childOf = (entry: RemoteEntry, name: string) =>
    children(entry.id).find((child) => keyOf(child.name) === keyOf(name));
  const below = (entry: RemoteEntry): RemoteEntry[] => [entry, ...children(entry.id).flatMap(below)];
  const namesIn = (path: string) => path.split('/').filter(Boolean);
  const at = (path: string): RemoteEntry | undefined =>
    namesIn(path).reduce<RemoteEntry | undefined>((found, name) => found && childOf(found, name), root);

  function required(path: string): RemoteEntry {
    const entry = at(path);
    if (entry === undefined) throw new Error(`no entry at ${path}`);
    return entry;
  }

  function pathOf({ name, parentId }: RemoteEntry): string {
    const parent = entries.get(parentId ?? '');
    return parent === undefined ? '' : [pathOf(parent), name].filter(Boolean).join('/');
  }

  /** Creates missing parent folders, too. */
  const addFolder = (path: string): RemoteEntry =>
    namesIn(path).reduce((folder, name) => childOf(folder, name) ?? touch(make(folder.id, name, true)), root);

  function write(entry: RemoteEntry, content: string | Buffer): RemoteEntry {
    lastMs = Math.max(Date.now(), lastMs + 1);
    touch(Object.assign(entry, { content: Buffer.from(content), modified: new Date(lastMs) }));
    entry.contentAt = entry.changedAt;
    return entry;
  }

  function add(path: string, content: string | Buffer = `content of ${path}`, mimeType = plainType): RemoteEntry {
    const slash = path.lastIndexOf('/');
    const folder = addFolder(path.slice(0, Math.max(slash, 0)));
    return write(make(folder.id, path.slice(slash + 1), false, mimeType), content);
  }

  function change(path: string, changes: () => Partial<RemoteEntry>): RemoteEntry {
    const entry = required(path);
    const left = pathOf(entry);
    return touch(Object.assign(entry, changes()), left);
  }

  const tree = {
    ...{ root, add, addFolder, at, get, children, pathOf, below },
    edit: (path: string, content: string | Buffer) => write(required(path), content),
    rename: (path: string, name: string) => change(path, () => ({ name })),
    /** Moves the entry into the folder at the path `folder`. */
    move: (path: string, folder: string) => change(path, () => ({ parentId: required(folder).id })),
    /** Moves the entry to the trash, with everything below it. */
    remove: (path: string) => change(path, () => ({ isDeleted: true })),
    restore: (entry: RemoteEntry) => void touch(Object.assign(entry, { isDeleted: false })),
    /** Also returns deleted entries. */
    ever: (id: string) => entries.get(id),
    eventsSince: (since: number) => events.filter((event) => event.at > since),
    now: () => clock,
  };
  return {
    tree,
    maxPage: () => maxPage,
    /** A cursor of the change feed. */
    cursorAt: (at: number) => `${generation}.${at}`,
    /** The position of a cursor, or null for one that was invalidated. */
    positionOf(cursor: string): number | null {
      const [, of, at] = /^(\d+)\.(\d+)$/.exec(cursor) ?? [];
      return Number(of) === generation ? Number(at) : null;
    },
    /** Ids of the entries that have changed, each once, ordered by the last change. */
    changedSince(since: number) {
      const last = new Map(tree.eventsSince(since).map((event) => [event.id, event.at]));
      const all = [...last].sort(([, a], [, b]) => a - b);
      const page = all.slice(0, maxPage);
      return { ids: page.map(([id]) => id), isMore: page.length < all.length, end: page.at(-1)?.[1] ?? clock };
    },
    download(entry: RemoteEntry, type: string) {
      listener?.(entry, downloads.length);
      downloads.push(entry.id);
      return { status: 200, bytes: entry.content, headers: { 'content-type': type } };
    },
    controls: {
      tree,
      /** Ids of downloaded files, oldest first. */
      downloads,
      /** Calls the listener before each download, with the number of earlier downloads. */
      onDownload(called: typeof listener): void {
        listener = called;
      },
      /** Sets the maximum number of entries per page. */
      pageSize(most: number): void {
        maxPage = most;
      },
      /** Invalidates all change cursors issued so far. */
      forgetChanges(): void {
        generation += 1;
      },
    },
  };
}

/** Stands in for the provider's digest of the content. */
export function digestOf({ content }: RemoteEntry, algorithm: 'md5' | 'sha256'): string {
  return createHash(algorithm).update(content).digest('hex');
}
