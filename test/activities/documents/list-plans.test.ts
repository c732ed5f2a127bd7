import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { defaultRagConfig } from '#src/domain/documents/rag-config.ts';
import { createDocumentsRepository } from '#src/modules/documents/documents.repository.ts';
import { createJobsRepository } from '#src/modules/jobs/jobs.repository.ts';
import { indexesOf, openQueryPlans, type PlanNode, rowsRead } from '#test/support/query-plans.ts';
import { createTestDatabase } from '#test/support/services.ts';

const documentCount = 4_000;

/** The plans that Postgres chooses with fresh statistics. `npm run bench:lists` measures the time. */
describe('query plans of lists', () => {
  let db: Knex;
  let plans: Awaited<ReturnType<typeof openQueryPlans>>;
  let drop: () => Promise<void>;
  const [orgId, userId, few, tenth, folderId] = [uuidv7(), uuidv7(), uuidv7(), uuidv7(), uuidv7()];
  const actor = (id: string, teams: string[] = []): Actor => ({
    ...{ userId: id, orgId, isOrgAdmin: false, teamIds: teams, teamAdminOf: [], openTeamIds: teams },
  });
  const [all, one, part] = [actor(userId), actor(few), actor(tenth)];
  const everyTeam = Array.from({ length: 3_000 }, (_, place) => String(place));

  before(async () => {
    const database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 2, applicationName: 'test' });
    drop = database.drop;
    plans = await openQueryPlans(db, database.url);
    await db('organizations').insert({ id: orgId, name: 'Large' });
    await db('users').insert([userId, few].map((id) => ({ id, email: `${id}@example.com`, displayName: 'Ada' })));
    const root = { name: 'Root', kind: 'system', systemRole: 'org_root', visibility: 'org_level' };
    await db('folders').insert({
      ...root,
      id: folderId,
      orgId,
      rootId: folderId,
      acl: [`user:${userId}`],
      createdBy: userId,
    });
    const ragConfig = JSON.stringify(defaultRagConfig({ embeddingModel: 'any', hasReranker: false }));
    await db.raw(
      `insert into documents (id, org_id, name, file_name, size_bytes, content_sha256, blob_key, rag_config, acl,
                              created_by, updated_by, updated_at)
       select gen_random_uuid(), :orgId, 'Note ' || n, 'note.txt', 1, n, n, :ragConfig,
              case when n % 1000 = 0 then array['user:' || :few]
                   when n % 10 = 1 then array['user:' || :userId, 'user:' || :tenth]
                   else array['user:' || :userId] end,
              :userId, :userId, now() - n * interval '1 min'
       from generate_series(1, :documentCount::integer) n`,
      { orgId, userId, few, tenth, ragConfig, documentCount },
    );
    await db.raw(
      `insert into folder_links (org_id, folder_id, document_id, created_by) select org_id, ?, id, created_by from documents`,
      [folderId],
    );
    await db.raw(
      `insert into jobs (id, org_id, kind, status, start, acl, document_id, created_by, created_at, error_code)
       select 'ingest-' || id || '-1', org_id, 'ingest', case when name like '%77' then 'failed' else 'succeeded' end, '{}',
              acl, id, created_by, updated_at, case when name like '%77' then 'corrupt_document' end
       from documents`,
    );
    await db.raw('vacuum analyze documents');
    await db.raw('vacuum analyze folder_links');
    await db.raw('vacuum analyze jobs');
  });
  after(async () => {
    await plans.close();
    await db.destroy();
    await drop();
  });

  /** The plan of the one statement that `list` sends. */
  async function planOf(list: () => Promise<unknown>): Promise<PlanNode[]> {
    const made = await plans.plansOf(list);
    expect(made).length(1);
    return made[0] ?? [];
  }

  /** Adds an organization with as many teams as documents. */
  async function addCrowd(): Promise<{ orgId: string }> {
    const crowd = { orgId: uuidv7() };
    await db('organizations').insert({ id: crowd.orgId, name: 'Crowd' });
    await db.raw(
      `insert into documents (id, org_id, name, file_name, size_bytes, content_sha256, blob_key, rag_config, acl,
                              created_by, updated_by, updated_at)
       select gen_random_uuid(), :orgId, 'Note', 'note.txt', 1, n, n, '{"retrieval": {}}', array['team:' || n],
              :userId, :userId, now() - n * interval '1 min'
       from generate_series(0, :last::integer) n`,
      { ...crowd, userId, last: everyTeam.length - 1 },
    );
    await db.raw('vacuum analyze documents');
    return crowd;
  }
  const first = { limit: 20, offset: 0 };

  it('reads the first page in index order for a user who may read nearly everything', async () => {
    const nodes = await planOf(() => createDocumentsRepository(db).listReadable(all, first));
    expect(indexesOf(nodes)).include('documents_list_idx');
    expect(rowsRead(nodes, 'documents')).below(100);
  });

  it('reads the first page by access keys for a user who may read little', async () => {
    const nodes = await planOf(() => createDocumentsRepository(db).listReadable(one, first));
    expect(indexesOf(nodes)).include('documents_opened_idx');
    expect(rowsRead(nodes, 'documents')).below(100);
  });

  it('reads a later page by access keys, without other documents, for a user who may read a tenth', async () => {
    const page = { limit: 20, offset: 300 };
    const nodes = await planOf(() => createDocumentsRepository(db).listReadable(part, page));
    expect(indexesOf(nodes)).include('documents_opened_idx');
    expect(rowsRead(nodes, 'documents')).below(400);
  });

  it('reads a page in index order for a user whose keys open thousands of sets of keys', async () => {
    const crowd = { ...actor(uuidv7(), everyTeam), orgId: (await addCrowd()).orgId };
    const nodes = await planOf(() => createDocumentsRepository(db).listReadable(crowd, { limit: 20, offset: 40 }));
    expect(indexesOf(nodes)).include('documents_list_idx').and.not.include('documents_opened_idx');
    expect(rowsRead(nodes, 'documents')).below(200);
  });

  it('reads a page of a folder in index order', async () => {
    const page = { folderId, limit: 20, offset: 100 };
    const nodes = await planOf(() => createDocumentsRepository(db).listReadable(all, page));
    expect(indexesOf(nodes)).include('folder_links_listed_idx');
    expect(rowsRead(nodes, 'documents')).below(100);
  });

  it('reads the documents of one author in index order', async () => {
    const page = { createdBy: userId, limit: 31, offset: 0 };
    const nodes = await planOf(() => createDocumentsRepository(db).listReadable(all, page));
    expect(rowsRead(nodes, 'documents')).below(150);
  });

  it('counts without reading documents', async () => {
    const documents = createDocumentsRepository(db);
    const asked = [
      () => documents.countReadable(all),
      () => documents.countReadable(all, userId),
      () => documents.usage(orgId),
    ];
    for (const ask of asked) expect(rowsRead(await planOf(ask), 'document_totals')).within(1, 10);
    expect(rowsRead(await planOf(() => documents.countInFolder(all, folderId)), 'documents')).equal(0);
  });

  it('finds failed and parked jobs, and the jobs of a user who may read few, by an index', async () => {
    const page = { limit: 20, after: null };
    const jobs = createJobsRepository(db);
    expect(rowsRead(await planOf(() => jobs.listReadable(all, {}, page)), 'jobs')).below(100);
    expect(rowsRead(await planOf(() => jobs.listReadable(one, {}, page)), 'jobs')).below(100);
    expect(rowsRead(await planOf(() => jobs.listReadable(all, { status: 'failed' }, page)), 'jobs')).below(100);
    expect(rowsRead(await planOf(() => jobs.listReadable(all, { status: 'parked' }, page)), 'jobs')).below(100);
    const errorCode = 'corrupt_document';
    expect(rowsRead(await planOf(() => jobs.listReadable(all, { errorCode }, page)), 'jobs')).below(100);
  });
});
