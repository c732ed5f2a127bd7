import { expect } from 'chai';
import pg from 'pg';
import { v7 as uuidv7 } from 'uuid';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { defaultRagConfig } from '#src/domain/rag-config.ts';
import type { Actor } from '#src/domain/visibility.ts';
import { createDocumentTotalsRepository } from '#src/modules/documents/document-totals.repository.ts';
import { createDocumentsRepository } from '#src/modules/documents/documents.repository.ts';
import { createJobsRepository } from '#src/modules/jobs/jobs.repository.ts';
import type { Db } from '#src/ports/database.ts';
import { createTestDatabase } from '#test/support/services.ts';

type Plan = {
  'Relation Name'?: string;
  'Index Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: Plan[];
};

const documentCount = 4_000;

/** How Postgres goes about lists once it knows how much there is. What it takes is measured by `npm run bench:lists`. */
describe('plans of lists', function () {
  this.timeout(60_000);
  let db: Db;
  let client: pg.Client;
  let drop: () => Promise<void>;
  const [orgId, userId, few, folderId] = [uuidv7(), uuidv7(), uuidv7(), uuidv7()];
  const actor = (id: string, teams: string[] = []): Actor => ({
    ...{ userId: id, orgId, isOrgAdmin: false, teamIds: teams, teamAdminOf: [], openTeamIds: teams },
  });
  const [all, one] = [actor(userId), actor(few)];

  before(async () => {
    const database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 2, applicationName: 'test' });
    drop = database.drop;
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
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
              case when n % 1000 = 0 then array['user:' || :few] else array['user:' || :userId] end,
              :userId, :userId, now() - n * interval '1 min'
       from generate_series(1, :documentCount::integer) n`,
      { orgId, userId, few, ragConfig, documentCount },
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
    await client.end();
    await db.destroy();
    await drop();
  });

  /** The nodes of the plan of the one statement that `list` sends. */
  async function planOf(list: () => Promise<unknown>): Promise<Plan[]> {
    const sent: { sql: string; bindings: unknown[] }[] = [];
    const listen = (statement: { sql: string; bindings: unknown[] }) => sent.push(statement);
    db.on('query', listen);
    await list();
    db.removeListener('query', listen);
    expect(sent).length(1);
    const { rows } = await client.query(`explain (analyze, format json) ${sent[0]?.sql}`, sent[0]?.bindings);
    return nodesOf(rows[0]['QUERY PLAN'][0].Plan);
  }
  const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];
  const rowsRead = (nodes: Plan[], table: string) =>
    nodes
      .filter((node) => node['Relation Name'] === table)
      .reduce((sum, node) => {
        const seen = node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0);
        return sum + seen * node['Actual Loops'];
      }, 0);
  const indexesOf = (nodes: Plan[]) => nodes.map((node) => node['Index Name']);
  const first = { limit: 20, offset: 0 };

  it('the first page of who reads nearly everything is read in its order', async () => {
    const nodes = await planOf(() => createDocumentsRepository(db).listReadable(all, first));
    expect(indexesOf(nodes)).include('documents_list_idx');
    expect(rowsRead(nodes, 'documents')).below(100);
  });

  it('that of who reads little is read by his keys', async () => {
    const nodes = await planOf(() => createDocumentsRepository(db).listReadable(one, first));
    expect(indexesOf(nodes)).include('documents_acl_idx');
    expect(rowsRead(nodes, 'documents')).below(100);
  });

  it('a page of a folder is read in its order', async () => {
    const page = { folderId, limit: 20, offset: 100 };
    const nodes = await planOf(() => createDocumentsRepository(db).listReadable(all, page));
    expect(indexesOf(nodes)).include('folder_links_listed_idx');
    expect(rowsRead(nodes, 'documents')).below(100);
  });

  it('what somebody has made is read in its order', async () => {
    const page = { createdBy: userId, limit: 31, offset: 0 };
    const nodes = await planOf(() => createDocumentsRepository(db).listReadable(all, page));
    expect(rowsRead(nodes, 'documents')).below(150);
  });

  it('totals look at no document', async () => {
    const totals = createDocumentTotalsRepository(db);
    const asked = [() => totals.readable(all), () => totals.readable(all, userId), () => totals.usage(orgId)];
    for (const ask of asked) expect(rowsRead(await planOf(ask), 'document_totals')).within(1, 10);
    expect(rowsRead(await planOf(() => totals.inFolder(all, folderId)), 'documents')).equal(0);
  });

  it('jobs that are not well, and those of who reads few, are found by an index', async () => {
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
