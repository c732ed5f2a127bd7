import type { Dataroom, Reader } from './dataroom.ts';
import type { Measured } from './measured-lists.ts';

type MeasuredRoom = Measured<Dataroom>;

/** A request that is measured at both sizes; `take` returns its duration in milliseconds. */
export type Measure<Room = MeasuredRoom> = { name: string; take(room: Room): Promise<number> };

type Path = (room: MeasuredRoom) => string | Promise<string>;

const get = (name: string, as: Reader, path: string | Path): Measure => ({
  name,
  take: async (room) => room.get(as, typeof path === 'string' ? path : await path(room)),
});

async function nameIn(room: MeasuredRoom): Promise<string> {
  const known = names.get(room) ?? String(Object(await room.read('all', '/documents?limit=1')).items[0].name);
  names.set(room, known);
  return known;
}

const names = new Map<MeasuredRoom, string>();

const searches: Record<string, Path> = {
  'common word': ({ words }) => wordAt(words, 60),
  'rare word': ({ words }) => `${wordAt(words, 4_000)}c`,
  'two words': ({ words }) => `${wordAt(words, 60)} ${wordAt(words, 300)}`,
  name: async (room) => (await nameIn(room)).replace(/\.\w+$/, ''),
  typo: async (room) => swapLetters(longestWord(await nameIn(room))),
  'beginning of a word': async (room) => longestWord(await nameIn(room)).slice(0, 5),
};

const searchesOf = (as: Reader, who = ''): Measure[] =>
  Object.entries(searches).map(([name, words]) =>
    get(`search: ${name}${who}`, as, async (room) => `/documents/search?q=${encodeURIComponent(await words(room))}`),
  );

/** Reader `all` can access everything; the others a tenth, a hundredth, or ten of 100,000 documents. */
export const measures: Measure[] = [
  get('first page', 'all', '/documents'),
  get('first page of a tenth', 'tenth', '/documents'),
  get('first page of a hundredth', 'hundredth', '/documents'),
  get('first page of ten documents', 'few', '/documents'),
  get('page 50', 'all', '/documents?offset=980'),
  get('page 50 of a tenth', 'tenth', '/documents?offset=980'),
  get('page 50 of a hundredth', 'hundredth', '/documents?offset=980'),
  get('largest folder', 'all', ({ folders }) => `/documents?folder_id=${folders.large}`),
  get('largest folder, page 50', 'all', ({ folders }) => `/documents?offset=980&folder_id=${folders.large}`),
  get('folder of ten', 'all', ({ folders }) => `/documents?folder_id=${folders.small}`),
  get('recent', 'all', '/documents/recent'),
  get('recent of a hundredth', 'hundredth', '/documents/recent'),
  get('recent, mine', 'all', '/documents/recent?mine=true'),
  get('recent, mine, of a tenth', 'tenth', '/documents/recent?mine=true'),
  get('jobs', 'all', '/jobs'),
  get('jobs of ten documents', 'few', '/jobs'),
  get('failed jobs', 'all', '/jobs?status=failed'),
  get('summary of the jobs of the folder of ten', 'all', ({ folders }) => `/jobs/summary?folder_id=${folders.small}`),
  get('folder tree without documents', 'all', '/folders?include_documents=false'),
  ...searchesOf('all'),
  ...searchesOf('tenth', ', of a tenth'),
  ...searchesOf('hundredth', ', of a hundredth'),
];

/** Requests that read or count all listed rows, so that their cost grows with the list. */
export const growingMeasures: Measure[] = [
  get('offset of nine tenths', 'all', ({ size }) => `/documents?offset=${size * 0.9}`),
  get('summary of all jobs', 'all', '/jobs/summary'),
  {
    name: 'naive first page (count and order by), without HTTP',
    take: async ({ orgId, people, query }) => {
      const readable = `from documents
        where org_id = $1 and acl && (
          select array_agg(key) || array['user:' || $2] from folders, unnest(acl) key where system_role = 'team_root'
        )`;
      const values = [orgId, people.all.userId];
      const counted = await query(`select count(*) ${readable}`, values);
      return counted + (await query(`select * ${readable} order by updated_at desc, id desc limit 20`, values));
    },
  },
];

function wordAt(words: readonly string[], place: number): string {
  return words.slice(place).find((word) => word.length >= 6) ?? '';
}

function longestWord(name: string): string {
  return name.split(/[ .]/).toSorted((a, b) => b.length - a.length)[0] ?? '';
}

function swapLetters(word: string): string {
  return `${word.slice(0, 2)}${word.slice(3, 4)}${word.slice(2, 3)}${word.slice(4)}`;
}
