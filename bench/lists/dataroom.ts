import { createHash } from 'node:crypto';
import { v5 as uuidv5 } from 'uuid';
import { accessKeysOfRow, type Visibility } from '../../src/domain/access/visibility.ts';
import { defaultRagConfig } from '../../src/domain/documents/rag-config.ts';
import { toPostingBlocks } from '../../src/domain/retrieval/bm25.ts';
import { type Random, seededRandom } from '../search/random.ts';
import { generateTexts } from './texts.ts';

/**
 * The share of documents that each reader can access: `all` is an administrator, the next two are in one team each.
 */
const readers = { all: 1, tenth: 0.1, hundredth: 0.01, few: 0.0001 } as const;
export type Reader = keyof typeof readers;

export type Person = { userId: string; email: string };

/** A generated organization with documents, as table rows; the items that the benchmark requests are named. */
export type Dataroom = {
  orgId: string;
  people: Record<Reader, Person>;
  /** `large` has the most documents, about a tenth of all; `small` has ten. */
  folders: { large: string; small: string };
  words: readonly string[];
  /** Rows in the order of their foreign keys; the iterable can be read once only. */
  rows: Iterable<TableRow>;
};

export type TableRow = { table: string; row: Readonly<Record<string, unknown>> };

type Root = { id: string; visibility: Visibility; acl: string[]; creators: string[]; folders: string[] };

const folderCount = 400;
const chunksPerDocument = 2;
const smallFolderDocuments = 10;
const generation = 1;
const namespace = '5f3cf1d2-4b0e-4d7c-9b55-1f7a9c1a8b11';
const newestAt = Date.parse('2026-11-01T00:00:00Z');

/** Deterministic ids, so that two runs load the same rows. */
export const benchId = (name: string): string => uuidv5(name, namespace);

export function generateDataroom(options: { documents: number; passwordHash: string; seed?: number }): Dataroom {
  const { documents, passwordHash } = options;
  const random = seededRandom(options.seed ?? 1);
  const texts = generateTexts(random);
  const orgId = benchId('organization');
  const user = (name: string): Person => ({ userId: benchId(`user ${name}`), email: `${name}@example.com` });
  const people = { all: user('all'), tenth: user('tenth'), hundredth: user('hundredth'), few: user('few') };
  const others = Array.from({ length: 20 }, (_, place) => user(`colleague-${place}`));
  const ids = (from: Person[]) => from.map(({ userId }) => userId);
  const crews = {
    everybody: ids([people.all, ...others.slice(0, 15)]),
    tenth: ids([people.tenth, ...others.slice(15, 18)]),
    hundredth: ids([people.hundredth, ...others.slice(18)]),
  };
  const rootOf = (name: string, visibility: Visibility, creators: string[]): Root => {
    const teamIds = visibility === 'team_level' ? [benchId(`team ${name}`)] : [];
    const createdBy = visibility === 'personal' ? (creators[0] ?? '') : null;
    const acl = accessKeysOfRow({ orgId, createdBy, visibility, teamIds });
    return { id: benchId(`root ${name}`), visibility, acl, creators, folders: [benchId(`root ${name}`)] };
  };
  const everybody = rootOf('everybody', 'team_level', crews.everybody);
  const tenth = rootOf('tenth', 'team_level', crews.tenth);
  const hundredth = rootOf('hundredth', 'team_level', crews.hundredth);
  const personal = rootOf('few', 'personal', [people.few.userId]);
  const small = benchId('folder small');
  const ragConfig = defaultRagConfig({ embeddingModel: 'bench-model', hasReranker: false });

  const rootFor = (place: number): Root => {
    const share = place / documents;
    if (place < Math.max(1, documents * readers.few)) return personal;
    if (share < readers.hundredth) return hundredth;
    return share < readers.tenth + readers.hundredth ? tenth : everybody;
  };

  function* structure(): Generator<TableRow> {
    yield { table: 'organizations', row: { id: orgId, name: 'Bench', tier: 'max' } };
    for (const { userId, email } of [...Object.values(people), ...others]) {
      yield { table: 'users', row: { id: userId, email, password_hash: passwordHash, display_name: email } };
      yield {
        table: 'memberships',
        row: { user_id: userId, org_id: orgId, is_org_admin: userId === people.all.userId },
      };
    }
    for (const [name, members] of Object.entries(crews)) {
      const id = benchId(`team ${name}`);
      yield { table: 'teams', row: { id, org_id: orgId, name } };
      for (const userId of members) {
        yield { table: 'team_memberships', row: { org_id: orgId, team_id: id, user_id: userId } };
      }
    }
    const folder = (id: string, root: Root, parentId: string | null, row: object): TableRow => ({
      table: 'folders',
      row: {
        ...{ id, org_id: orgId, parent_id: parentId, root_id: root.id, visibility: root.visibility, acl: root.acl },
        ...{ created_by: people.all.userId, ...row },
      },
    });
    for (const [name, root] of Object.entries({ everybody, tenth, hundredth })) {
      const ofTeam = { system_role: 'team_root', team_id: benchId(`team ${name}`) };
      yield folder(root.id, root, null, { name, kind: 'system', ...ofTeam });
    }
    const ownRoot = { name: 'Personal', kind: 'system', system_role: 'personal_root', owner_id: people.few.userId };
    yield folder(personal.id, personal, null, ownRoot);
    for (let place = 0; place < folderCount; place += 1) {
      const root = [everybody, everybody, everybody, tenth, hundredth][place % 5] ?? everybody;
      const id = benchId(`folder ${place}`);
      const parentId = root.folders[random.below(root.folders.length)] ?? root.id;
      root.folders.push(id);
      yield folder(id, root, parentId, { name: `${texts.name()} ${place}`, kind: 'user' });
    }
    yield folder(small, everybody, everybody.id, { name: 'Small', kind: 'user' });
  }

  /** Picks a folder of a root by a Zipf distribution: the first folder has the most documents. */
  const folderOf = (root: Root): string => root.folders[zipf(random, root.folders.length)] ?? root.id;

  function* documentRows(place: number): Generator<TableRow> {
    const root = rootFor(place);
    const id = benchId(`document ${place}`);
    const isSmall = root === everybody && place >= documents - smallFolderDocuments;
    const folderId = isSmall ? small : folderOf(root);
    const createdBy = root.creators[zipf(random, root.creators.length)] ?? '';
    // Spread over two years in random order, so that each reader has both new and old documents.
    const updatedAt = new Date(newestAt - random.below(2 * 365 * 86_400) * 1_000).toISOString();
    const acl = [...new Set([`user:${createdBy}`, ...root.acl])];
    const passages = Array.from({ length: chunksPerDocument }, () => texts.passage());
    const body = passages.map(({ text }) => text).join('\n\n');
    const name = texts.name();
    const [sha, jobId] = [sha256(body).toString('hex'), `ingest-${id}-${generation}`];
    const original = { file_name: name, size_bytes: body.length, content_sha256: sha, blob_key: `${orgId}/${id}` };
    const conversionId = benchId(`conversion ${place}`);
    yield {
      table: 'documents',
      row: {
        ...{ id, org_id: orgId, name, ...original, source_format: 'markdown', generation, active_generation: 1 },
        ...{ rag_config: ragConfig, active_embedding_model: 'bench-model', acl, created_by: createdBy },
        ...{ created_at: updatedAt, updated_by: createdBy, updated_at: updatedAt },
      },
    };
    const link = { org_id: orgId, folder_id: folderId, document_id: id, created_by: createdBy };
    yield { table: 'folder_links', row: link };
    const converted = { id: conversionId, org_id: orgId, content_sha256: sha, converter_version: 'bench', body };
    yield { table: 'conversions', row: { ...converted, source_format: 'markdown', page_count: 1 } };
    yield {
      table: 'document_generations',
      row: {
        ...{ org_id: orgId, document_id: id, generation, job_id: jobId, conversion_id: conversionId },
        ...{ chunks_total: chunksPerDocument, chunks_embedded: chunksPerDocument, chunked_at: updatedAt },
        ...{ activated_at: updatedAt, document_name: name, ...original, rag_config: ragConfig },
      },
    };
    yield { table: 'jobs', row: jobOf(place, { id: jobId, documentId: id, createdBy, acl, at: updatedAt }) };
    for (const [index, { text, termCount }] of passages.entries()) {
      yield {
        table: 'chunks',
        row: {
          ...{ id: uuidv5(`${generation}:${index}`, id), org_id: orgId, document_id: id, generation },
          ...{ chunk_index: index, content: text, chunk_kind: 'text', token_count: 60, page_number: 1 },
          ...{ content_offset: body.indexOf(text), term_count: termCount },
          text_sha256: `\\x${sha256(`\n${text}`).toString('hex')}`,
        },
      };
    }
    const words = passages.map(({ stems, termCount }, index) => ({ index, terms: stems, termCount }));
    for (const { term, block, postings } of toPostingBlocks(words)) {
      yield { table: 'document_terms', row: { org_id: orgId, term, document_id: id, generation, block, postings } };
    }
  }

  /** Creates the job of a document: one in a hundred has failed, and the newest jobs are running. */
  function jobOf(
    place: number,
    of: { id: string; documentId: string; createdBy: string; acl: string[]; at: string },
  ): Record<string, unknown> {
    const [failed, running] = [place % 100 === 7, place % 200 === 11];
    const over = { status: failed ? 'failed' : 'succeeded', finished_at: of.at };
    return {
      ...{ id: of.id, org_id: orgId, kind: 'ingest', stage: 'embed', document_id: of.documentId, acl: of.acl },
      ...(running ? { status: 'running', finished_at: null } : over),
      ...{ error_code: failed ? 'corrupt_document' : null, error_message: failed ? 'It cannot be read.' : null },
      ...{ progress_done: running ? 1 : 2, progress_total: 2, progress_unit: 'chunks', start: {} },
      ...{ created_by: of.createdBy, created_at: of.at, dispatched_at: of.at, checked_at: of.at, started_at: of.at },
    };
  }

  function* rows(): Generator<TableRow> {
    yield* structure();
    for (let place = 0; place < documents; place += 1) yield* documentRows(place);
  }
  return { orgId, people, folders: { large: everybody.id, small }, words: texts.byFrequency, rows: rows() };
}

/** Draws an index from a Zipf distribution: the n-th is drawn 1 / n as often as the first. */
export function zipf(random: Random, count: number): number {
  return Math.min(count - 1, Math.floor((count + 1) ** random.next()) - 1);
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
