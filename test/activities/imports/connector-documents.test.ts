import { expect } from 'chai';
import type { Knex } from 'knex';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { createImportRunsRepository } from '#src/modules/imports/import-runs.repository.ts';
import type { ImportRunRow } from '#src/modules/imports/imports.model.ts';
import { createConnectorDocumentsRepository } from '#src/modules/imports/sync-state.repository.ts';
import { createTestDatabase } from '#test/support/services.ts';

const orgId = '0198c5a2-0000-7000-8000-000000000001';
const userId = '0198c5a2-0000-7000-8000-000000000002';
const connectionId = '0198c5a2-0000-7000-8000-000000000003';
const runId = '0198c5a2-0000-7000-8000-000000000004';
const of = { orgId, connectionId, runId };

describe('missing files of a delta sync', () => {
  let db: Knex;
  let run: ImportRunRow;
  let drop: () => Promise<void>;
  before(async () => {
    const database = await createTestDatabase();
    const opened = createDatabase({ url: database.url, maxConnections: 2, applicationName: 'test' });
    db = opened;
    drop = async () => {
      await opened.destroy();
      await database.drop();
    };
    await db.raw(`
      insert into organizations (id, name) values ('${orgId}', 'o');
      insert into users (id, email, display_name) values ('${userId}', 'a@example.com', 'n');
      insert into connections (id, org_id, user_id, provider, display_name, status, account_id, config, credentials, scopes)
      values ('${connectionId}', '${orgId}', '${userId}', 'acme_drive', 'd', 'active', 'x', '{}', 's', '{}');
      insert into import_runs (id, org_id, connection_id, kind, job_id, mode)
      values ('${runId}', '${orgId}', '${connectionId}', 'sync', 'sync-1', 'delta');`);
    run = (await createImportRunsRepository(db).findRun(of)) as ImportRunRow;
    await db.transaction(async (trx) => {
      // Disables triggers and foreign keys, so that the rows need only the columns of this test.
      await trx.raw('set local session_replication_role = replica');
      const { rows } = await trx.raw(
        `select column_name as name, data_type as type from information_schema.columns
         where table_name = 'documents' and is_nullable = 'NO' and column_default is null and is_generated = 'NEVER'`,
      );
      const values: Record<string, string> = { id: 'gen_random_uuid()', orgId: `'${orgId}'` };
      const ofType: Record<string, string> = {
        ...{ uuid: `'${userId}'`, text: `'s'`, jsonb: `'{"retrieval": {"a": 1}}'`, ARRAY: `'{}'` },
        ...{ bigint: '1', integer: '1', boolean: 'false' },
      };
      const columns: { name: string; type: string }[] = rows;
      const names = columns.map(({ name }) => name).join();
      const value = columns.map(({ name, type }) => values[camel(name)] ?? ofType[type] ?? 'now()');
      await trx.raw(`insert into documents (${names}) select ${value.join()} from generate_series(1, 10000)`);
      await trx.raw(`
        insert into connector_documents (org_id, connection_id, remote_id, document_id, revision, content_sha256, name,
          path, local_path, folder_id, seen_run_id)
        select org_id, '${connectionId}', 'f' || n, id, 'r', content_sha256, 'n', 'Folder ' || n % 500 || '/sub/file ' || n,
          '{}', '${connectionId}', '${userId}'
        from (select *, row_number() over () as n from documents) d`);
      await trx.raw(`
        insert into connector_folders (org_id, connection_id, remote_id, path)
        select '${orgId}', '${connectionId}', 'd' || n, 'Folder ' || n from generate_series(0, 499) n`);
    });
  });
  after(() => drop());
  afterEach(() => db('importGone').delete());

  const addGone = (rows: string) =>
    db.raw(`insert into import_gone (org_id, run_id, remote_id, path) select '${orgId}', '${runId}', ${rows}`);
  const missing = async () => (await createConnectorDocumentsRepository(db).countMissing(run)).missing;

  it('counts 3,500 deleted ids among 10,000 files within the statement timeout', async () => {
    await addGone(`'f' || n, null from generate_series(1, 3500) n`);
    await db.transaction(async (trx) => {
      await trx.raw(`set local statement_timeout = '10s'`);
      const documents = createConnectorDocumentsRepository(trx);
      expect(await documents.countMissing(run)).deep.equal({ missing: 3_500, known: 10_000 });
      expect(await documents.listMissing(run)).length(50);
    });
  });

  it('counts files in deleted folders and below deleted paths, regardless of case', async () => {
    await addGone(`'d' || n, null from generate_series(1, 400) n`);
    expect(await missing()).equal(8_000);
    await addGone(`null, 'FOLDER ' || n || '/Sub' from generate_series(300, 449) n`);
    expect(await missing()).equal(9_000 - 20);
    await addGone(`null, 'folder 450/sub/FILE 450' from generate_series(1, 1) n`);
    expect(await missing()).equal(9_000 - 20 + 1);
  });
});

const camel = (name: string): string => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
