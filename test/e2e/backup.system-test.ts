import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import type { Container } from '#src/container.ts';
import { anUpload, ask, replaceOriginal } from '#test/support/builders.ts';
import type { ApiClient } from '#test/support/client.ts';
import { sha256Of } from '#test/support/exported.ts';
import { createBucket, openBucket, s3Endpoint } from '#test/support/s3.ts';
import { newCollectionPrefix, testQdrantUrl } from '#test/support/services.ts';
import { untilRun } from '#test/support/until-job.ts';
import {
  type BackupCase,
  backupsOf,
  containerOf,
  createBackupCase,
  ingest,
  onRestored,
  type Settings,
} from './backup-case.ts';
import { findSecrets } from './secret-search.ts';

const passing = [
  ...['refresh_tokens', 'refresh_token_families', 'oauth_states', 'sign_in_states'],
  ...['idempotency_keys', 'rate_limits', 'model_calls', 'model_pauses', 'blob_claims', 'exports', 'export_volumes'],
  // Written by each migration.
  'knex_migrations_lock',
];

async function hashTables({ db }: Pick<Container, 'db'>): Promise<Record<string, string>> {
  const tables: string[] = await db('pg_tables').where({ schemaname: 'public' }).pluck('tablename');
  const hashes: Record<string, string> = {};
  for (const table of tables.filter((name) => !passing.includes(name))) {
    const rows = db.raw('select to_jsonb(t)::text collate "C" as row from ?? t order by 1', [table]);
    hashes[table] = sha256Of(Buffer.from((await rows).rows.map(({ row }: { row: string }) => row).join('\n')));
  }
  return hashes;
}

/** Hashes every original and the avatar as a member downloads them. */
async function hashFiles(member: ApiClient & { userId: string }): Promise<string[]> {
  const { items } = Object((await member.get('/documents?limit=50', 200)).body);
  const originals = items.map(({ id }: { id: string }) => `/documents/${id}/file`);
  const paths: string[] = [...originals, `/entity/users/${member.userId}/avatar`];
  return Promise.all(
    paths.map(async (path) => {
      const response = await member.raw(path);
      expect(response.status, path).equal(200);
      return sha256Of(Buffer.from(await response.arrayBuffer()));
    }),
  );
}

/** New settings of the blob store and the vector store with each call. */
const storages: Readonly<Record<string, () => Promise<Settings>>> = {
  'with originals in files, and vectors in Postgres': async () => ({}),
  'with vectors in Qdrant, which are not in the backup': async () => ({
    VECTOR_STORE: 'qdrant',
    QDRANT_URL: testQdrantUrl(),
    QDRANT_COLLECTION_PREFIX: newCollectionPrefix(),
  }),
  'with originals in S3': async () => (await createBucket(s3Endpoint() ?? '')).environment,
};

describe('backup and restore', function () {
  this.timeout(120_000);

  for (const [title, newStorage] of Object.entries(storages)) {
    it(`restore every row and every byte into an empty installation, which then works (${title})`, async function () {
      if (title.endsWith('S3')) await openBucket(this);
      const { source, ada, agentId, folder, backUp, restore, newPlace, close } = await createBackupCase(
        await newStorage(),
      );
      try {
        const place = await newPlace(await newStorage());
        const before = await hashFiles(ada);
        const tables = await hashTables(source.container);
        expect(await backUp('--into', folder))
          .match(/^Backed up to \S+\.\n {2}state of +\S+Z, migration \d+_\w+\n {2}database +\d+ rows in \d+ tables, /)
          .match(/\n {2}originals +4, \d+ kB\n\nNOT included: the keys that decrypt stored credentials/);
        expect(await backUp('--verify', folder)).match(/ is complete and undamaged\.\n/);
        const restored = await restore(place);
        expect(restored.code, restored.stdout + restored.stderr).equal(0);
        expect(restored.stdout).match(
          /^Restored from .*\nAll sessions have ended: all users have to sign in again\.\n/s,
        );
        const reader = containerOf(place, 'test');
        expect(await hashTables(reader)).deep.equal(tables);
        await reader.close();

        await onRestored(place, ada, async (again, target) => {
          await target.anonymous.post('/auth/refresh_tokens', { refresh_token: ada.refreshToken }, 401);
          await ada.at(target.baseUrl).get('/folders', 401);
          expect(await hashFiles(again)).deep.equal(before);
          const { citations } = await ask(again, { agent_id: agentId, message: 'How is a loan repaid?' }, 201);
          expect(citations).not.empty;
          for (const { chunk_id } of citations) await again.get(`/documents/chunks/${chunk_id}`, 200);
          await ingest(again, { name: 'late.txt', content: 'Written after the restore.' });
        });
      } finally {
        await close();
      }
    });
  }
});

describe('a backup', function () {
  this.timeout(120_000);
  let own: BackupCase;
  before(async () => {
    own = await createBackupCase();
    await own.backUp('--into', own.folder);
  });
  after(() => own?.close());

  it('includes the original of every row although documents are uploaded and deleted meanwhile', async () => {
    const { copy } = await own.copyOfFolder();
    const place = await own.newPlace();
    let isOver = false;
    const work = [0, 1, 2].map(async (worker) => {
      for (let turn = 0; !isOver; turn += 1) {
        const file = { name: `${worker}-${turn}.txt`, content: `Text ${worker} of ${turn}.` };
        const { id, embedding_job_id } = await anUpload(own.ada, file);
        if (turn % 3 === 0) await own.ada.delete(`/documents/${id}`, 204);
        if (turn % 3 !== 1) continue;
        await untilRun(own.ada, embedding_job_id ?? '', 'succeeded');
        await replaceOriginal(own.ada, id, { name: 'next.txt', content: `Another text ${worker} of ${turn}.` });
      }
    });
    try {
      for (let turn = 0; turn < 3; turn += 1) await own.backUp('--into', copy, '--keep', '2');
    } finally {
      isOver = true;
      await Promise.all(work);
    }
    expect(await backupsOf(copy)).lengthOf(2);
    expect(await own.restore(place, copy)).include({ code: 0 });
    await onRestored(place, own.ada, async (again) => {
      expect(await hashFiles(again)).length.greaterThan(6);
    });
  });

  it('has all other data if the store has lost or damaged originals, and reports these originals', async () => {
    const copy = `${own.folder}-${randomUUID()}`;
    const objects = join(own.source.config.dataDir, 'blobs', 'objects', own.ada.orgId);
    const [first = '', second = ''] = await readdir(objects);
    const [damaged, lost] = [join(objects, first), join(objects, second)];
    const contents = [await readFile(damaged), await readFile(lost)] as const;
    await writeFile(damaged, 'something else');
    await rm(lost);
    const told = await own.tryToBackUp('--into', copy);
    await writeFile(damaged, contents[0]);
    await writeFile(lost, contents[1]);
    expect(told.code).equal(1);
    for (const name of [first, second]) {
      expect(told.stderr).include(`The store has lost ${own.ada.orgId}/${name}, or has`);
    }
    expect(told.stderr).match(/\n2 originals are missing or damaged in the store\. Everything else is backed up\.\n$/);
    expect((await own.tryToBackUp('--verify', copy)).code).equal(0);
  });

  it('has no secret in plain text and only hashes of passwords, in files that only their owner can read', async () => {
    const path = join(own.folder, (await backupsOf(own.folder)).at(-1) ?? '');
    const { settings } = own.source;
    const program = join(settings.TOOLS_DIR ?? '', 'embedded_postgres', 'pginstall', 'bin', 'pg_restore');
    const dump = join(path, 'database.dump');
    const { stdout } = await promisify(execFile)(program, ['--file=-', dump], { maxBuffer: 1_000_000_000 });
    expect(stdout).include('$argon2id$').include('# Loans');
    const secrets = {
      password: own.ada.password,
      'refresh token': own.ada.refreshToken,
      'encryption key': settings.ENCRYPTION_KEYS?.slice(2),
      'URL signing key': settings.URL_SIGNING_KEY,
      'stored credentials': '"secretAccessKey":"secret"',
      'signing key': settings.JWT_PRIVATE_KEY?.split('\n')[3],
      'password of Postgres': decodeURIComponent(new URL(settings.DATABASE_URL ?? '').password),
    };
    const sought = Object.entries(secrets).map(([name, value = '']) => ({ name, value }));
    const manifest = await readFile(join(path, 'manifest.json'), 'utf8');
    expect(findSecrets(sought, stdout + manifest)).deep.equal([]);
    const readable = await promisify(execFile)('find', [own.folder, '-perm', '/077']);
    expect(readable.stdout).equal('');
    expect(existsSync(join(own.folder, 'incoming'))).equal(false);
  });

  it('is restored with a report of the credentials that the configured keys cannot decrypt', async () => {
    const place = await own.newPlace({ ENCRYPTION_KEYS: `1:${Buffer.alloc(32).toString('base64')}` });
    const { code, stdout } = await own.restore(place);
    expect(stdout).match(
      /\n1 connections have credentials that no key in ENCRYPTION_KEYS decrypts: set the keys that were used at the time of the backup\.\n/,
    );
    expect(code).equal(1);
  });
});
