import { createHash, randomBytes } from 'node:crypto';

/** A file or folder that a provider keeps. */
export type RemoteEntry = {
  readonly id: string;
  name: string;
  /** Null of the root alone. */
  parentId: string | null;
  readonly isFolder: boolean;
  /** The provider's; of files without one of its own, `application/octet-stream`. */
  readonly mimeType: string;
  content: Buffer;
  /** Of the last change, whatever it was, and of the content's. */
  changedAt: number;
  contentAt: number;
  modified: Date;
  isDeleted: boolean;
};

/** What happened: where the entry was before, if it left from there. */
export type RemoteEvent = { at: number; id: string; leftPath: string | null };

/** The files behind a fake provider, as their owner changes them. Paths are names joined by slashes, the root ''. */
export type RemoteTree = {
  readonly root: RemoteEntry;
  /** With the folders above it. */
  add(path: string, content?: string | Buffer, mimeType?: string): RemoteEntry;
  addFolder(path: string): RemoteEntry;
  edit(path: string, content: string | Buffer): RemoteEntry;
  rename(path: string, name: string): RemoteEntry;
  /** Into the folder at this path. */
  move(path: string, folder: string): RemoteEntry;
  /** As to the bin: all below it goes along. */
  remove(path: string): RemoteEntry;
  restore(entry: RemoteEntry): void;
  at(path: string): RemoteEntry | undefined;
  /** Neither deleted nor below what is. */
  get(id: string): RemoteEntry | undefined;
  /** Deleted ones, too. */
  ever(id: string): RemoteEntry | undefined;
  children(id: string): RemoteEntry[];
  pathOf(entry: RemoteEntry): string;
  /** The entry itself, then all below. */
  below(entry: RemoteEntry): RemoteEntry[];
  eventsSince(at: number): RemoteEvent[];
  now(): number;
};

export const plainType = 'application/octet-stream';

export function createRemoteTree(habits: { newId?: () => string; ignoresCase?: boolean } = {}): RemoteTree {
  const { newId = () => randomBytes(12).toString('hex'), ignoresCase = false } = habits;
  const entries = new Map<string, RemoteEntry>();
  const childIds = new Map<string, Set<string>>();
  const events: RemoteEvent[] = [];
  let clock = 1;
  let lastMs = 0;

  const keyOf = (name: string) => (ignoresCase ? name.toLowerCase() : name);

  function make(parentId: string | null, name: string, isFolder: boolean, mimeType: string): RemoteEntry {
    const made = { id: newId(), name, parentId, isFolder, mimeType, content: Buffer.alloc(0), changedAt: clock };
    const entry = { ...made, contentAt: clock, modified: new Date(), isDeleted: false };
    entries.set(entry.id, entry);
    if (parentId !== null) siblings(parentId).add(entry.id);
    return entry;
  }

  function siblings(parentId: string): Set<string> {
    const ids = childIds.get(parentId) ?? new Set();
    childIds.set(parentId, ids);
    return ids;
  }

  /** Notes a change, with the path that the entry leaves by it. */
  function touch(entry: RemoteEntry, leftPath: string | null = null): RemoteEntry {
    clock += 1;
    entry.changedAt = clock;
    events.push({ at: clock, id: entry.id, leftPath });
    return entry;
  }

  const root = make(null, 'root', true, plainType);

  const get = (id: string): RemoteEntry | undefined => {
    const entry = entries.get(id);
    if (entry === undefined || entry.isDeleted) return undefined;
    return entry.parentId === null || get(entry.parentId) !== undefined ? entry : undefined;
  };
  const children = (id: string) =>
    [...(childIds.get(id) ?? [])].flatMap((each) => entries.get(each) ?? []).filter(({ isDeleted }) => !isDeleted);
  const childOf = (entry: RemoteEntry, name: string) =>
    children(entry.id).find((child) => keyOf(child.name) === keyOf(name));

  function at(path: string): RemoteEntry | undefined {
    let found: RemoteEntry | undefined = root;
    for (const name of path.split('/').filter(Boolean)) found = found && childOf(found, name);
    return found;
  }

  function required(path: string): RemoteEntry {
    const entry = at(path);
    if (entry === undefined) throw new Error(`there is nothing at ${path}`);
    return entry;
  }

  function pathOf(entry: RemoteEntry): string {
    const parent = entry.parentId === null ? undefined : entries.get(entry.parentId);
    if (parent === undefined) return '';
    const above = pathOf(parent);
    return above === '' ? entry.name : `${above}/${entry.name}`;
  }

  function addFolder(path: string): RemoteEntry {
    let folder = root;
    for (const name of path.split('/').filter(Boolean)) {
      folder = childOf(folder, name) ?? touch(make(folder.id, name, true, plainType));
    }
    return folder;
  }

  function write(entry: RemoteEntry, content: string | Buffer): RemoteEntry {
    entry.content = Buffer.from(content);
    lastMs = Math.max(Date.now(), lastMs + 1);
    entry.modified = new Date(lastMs);
    touch(entry);
    entry.contentAt = entry.changedAt;
    return entry;
  }

  return {
    root,
    addFolder,
    add(path, content = `content of ${path}`, mimeType = plainType) {
      const slash = path.lastIndexOf('/');
      const folder = addFolder(path.slice(0, Math.max(slash, 0)));
      return write(make(folder.id, path.slice(slash + 1), false, mimeType), content);
    },
    edit: (path, content) => write(required(path), content),
    rename(path, name) {
      const entry = required(path);
      const left = pathOf(entry);
      entry.name = name;
      return touch(entry, left);
    },
    move(path, folder) {
      const entry = required(path);
      const left = pathOf(entry);
      const target = required(folder);
      siblings(entry.parentId ?? '').delete(entry.id);
      siblings(target.id).add(entry.id);
      entry.parentId = target.id;
      return touch(entry, left);
    },
    remove(path) {
      const entry = required(path);
      const left = pathOf(entry);
      entry.isDeleted = true;
      return touch(entry, left);
    },
    restore(entry) {
      entry.isDeleted = false;
      touch(entry);
    },
    at,
    get,
    ever: (id) => entries.get(id),
    children,
    pathOf,
    below: function below(entry): RemoteEntry[] {
      return [entry, ...children(entry.id).flatMap(below)];
    },
    eventsSince: (since) => events.filter((event) => event.at > since),
    now: () => clock,
  };
}

/** Something like a digest of a provider, which changes with the content. */
export function digestOf({ content }: RemoteEntry, algorithm: 'md5' | 'sha256'): string {
  return createHash(algorithm).update(content).digest('hex');
}

/** What a fake gives out for positions in its changes: those from before `forget` are unreadable. */
export function createPositions() {
  let generation = 1;
  return {
    write: (at: number) => `${generation}.${at}`,
    read(token: string): number | null {
      const [, of, at] = /^(\d+)\.(\d+)$/.exec(token) ?? [];
      return Number(of) === generation ? Number(at) : null;
    },
    forget: () => {
      generation += 1;
    },
  };
}
