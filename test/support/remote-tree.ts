import { createHash, randomBytes } from 'node:crypto';

/** A file or folder at a fake provider. */
export type RemoteEntry = {
  readonly id: string;
  name: string;
  /** Null for the root. */
  parentId: string | null;
  readonly isFolder: boolean;
  /** Type of the provider's own formats; `application/octet-stream` for other files. */
  readonly mimeType: string;
  content: Buffer;
  /** Logical time of the last change of any kind. */
  changedAt: number;
  /** Logical time of the last change of the content. */
  contentAt: number;
  modified: Date;
  isDeleted: boolean;
};

/** A change of an entry. `leftPath` is its old path if it was moved, renamed or deleted. */
export type RemoteEvent = { at: number; id: string; leftPath: string | null };

/** The files of a fake provider. Paths are names joined by slashes; the root is ''. */
export type RemoteTree = {
  readonly root: RemoteEntry;
  /** Creates missing parent folders too. */
  add(path: string, content?: string | Buffer, mimeType?: string): RemoteEntry;
  addFolder(path: string): RemoteEntry;
  edit(path: string, content: string | Buffer): RemoteEntry;
  rename(path: string, name: string): RemoteEntry;
  /** Moves the entry into the folder at the path `folder`. */
  move(path: string, folder: string): RemoteEntry;
  /** Moves the entry to the trash, with everything below it. */
  remove(path: string): RemoteEntry;
  restore(entry: RemoteEntry): void;
  at(path: string): RemoteEntry | undefined;
  /** Returns undefined for entries that are deleted or below a deleted folder. */
  get(id: string): RemoteEntry | undefined;
  /** Also returns deleted entries. */
  ever(id: string): RemoteEntry | undefined;
  children(id: string): RemoteEntry[];
  pathOf(entry: RemoteEntry): string;
  /** Returns the entry and everything below it. */
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

  /** Records a change. */
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
    if (entry === undefined) throw new Error(`no entry at ${path}`);
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

/** Stands in for the provider's digest of the content. */
export function digestOf({ content }: RemoteEntry, algorithm: 'md5' | 'sha256'): string {
  return createHash(algorithm).update(content).digest('hex');
}

/** Cursors of a fake change feed. `forget` invalidates all cursors issued before. */
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
