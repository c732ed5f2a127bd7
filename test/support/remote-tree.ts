import { randomBytes } from 'node:crypto';
import type { FakeProvider } from './fake-oauth.ts';

export type RemoteEntry = {
  readonly id: string;
  readonly isFolder: boolean;
  /** Type of the provider's own formats; `application/octet-stream` for other files. */
  readonly mimeType: string;
  name: string;
  /** Null for the root. */
  parentId: string | null;
  content: Buffer;
  changedAt: number;
  contentAt: number;
  isDeleted: boolean;
};

/** A fake file provider, and the controls that tests have over it. */
export type FakeFiles = FakeProvider &
  ReturnType<typeof createRemoteFiles>['controls'] & {
    /** Issues an access token with all scopes that the service requests. */
    token(account?: string): string;
  };

export const plainType = 'application/octet-stream';

/** The files of a fake provider. Paths are names joined by slashes; the root is ''. */
export function createRemoteFiles(
  pageSize: number,
  { newId = () => randomBytes(12).toString('hex'), ignoresCase = false } = {},
) {
  const entries = new Map<string, RemoteEntry>();
  /** Changes of entries. `leftPath` is the old path of an entry that was moved, renamed or deleted. */
  const events: { at: number; entry: RemoteEntry; leftPath: string | null }[] = [];
  const downloads: string[] = [];
  let [clock, maxPage, generation] = [1, pageSize, 1];
  let listener: ((entry: RemoteEntry, before: number) => void) | null = null;

  function make(parentId: string | null, name: string, isFolder: boolean, mimeType = plainType): RemoteEntry {
    const times = { changedAt: clock, contentAt: clock };
    const content = Buffer.alloc(0);
    const entry = { id: newId(), name, parentId, isFolder, mimeType, content, ...times, isDeleted: false };
    entries.set(entry.id, entry);
    return entry;
  }

  function touch(entry: RemoteEntry, leftPath: string | null = null): RemoteEntry {
    clock += 1;
    entry.changedAt = clock;
    events.push({ at: clock, entry, leftPath });
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

  const addFolder = (path: string): RemoteEntry =>
    namesIn(path).reduce((folder, name) => childOf(folder, name) ?? touch(make(folder.id, name, true)), root);

  function write(entry: RemoteEntry, content: string | Buffer): RemoteEntry {
    touch(Object.assign(entry, { content: Buffer.from(content) }));
    entry.contentAt = entry.changedAt;
    return entry;
  }

  function add(path: string, content: string | Buffer = `content of ${path}`, mimeType = plainType): RemoteEntry {
    const names = namesIn(path);
    const folder = addFolder(names.slice(0, -1).join('/'));
    return write(make(folder.id, names.at(-1) ?? '', false, mimeType), content);
  }

  function change(path: string, changes: Partial<RemoteEntry>): RemoteEntry {
    const entry = required(path);
    const left = pathOf(entry);
    return touch(Object.assign(entry, changes), left);
  }

  const tree = {
    root,
    add,
    addFolder,
    at,
    get,
    children,
    pathOf,
    below,
    edit: (path: string, content: string | Buffer) => write(required(path), content),
    rename: (path: string, name: string) => change(path, { name }),
    /** Moves the entry into the folder at the path `folder`. */
    move: (path: string, folder: string) => change(path, { parentId: required(folder).id }),
    /** Moves the entry to the trash, with everything below it. */
    remove: (path: string) => change(path, { isDeleted: true }),
    restore: (entry: RemoteEntry) => void touch(Object.assign(entry, { isDeleted: false })),
    /** Also returns deleted entries. */
    ever: (id: string) => entries.get(id),
  };
  const cursorAt = (time: number) => `${generation}.${time}`;
  return {
    tree,
    /** A page of a list; `next` is the position of the next page, or null. */
    page(all: readonly RemoteEntry[], from: number, size: number) {
      const end = from + Math.min(size, maxPage);
      return { entries: all.slice(from, end), next: end < all.length ? end : null };
    },
    now: () => cursorAt(clock),
    /** A page of changes, and the entries that changed, by their last change. Null for an invalid cursor. */
    changesSince(cursor: string) {
      const [, of, since] = /^(\d+)\.(\d+)$/.exec(cursor) ?? [];
      if (Number(of) !== generation) return null;
      const all = events.filter((event) => event.at > Number(since));
      const page = all.slice(0, maxPage);
      const changed = [...new Set(page.map(({ entry }) => entry).reverse())].reverse();
      return { events: page, changed, isLast: page.length === all.length, next: cursorAt(page.at(-1)?.at ?? clock) };
    },
    download(entry: RemoteEntry, type: string) {
      listener?.(entry, downloads.length);
      downloads.push(entry.id);
      return { status: 200, bytes: entry.content, headers: { 'content-type': type } };
    },
    controls: {
      tree,
      downloads,
      /** Calls the listener before each download, with the number of earlier downloads. */
      onDownload(called: typeof listener): void {
        listener = called;
      },
      pageSize(most: number): void {
        maxPage = most;
      },
      forgetChanges(): void {
        generation += 1;
      },
    },
  };
}
