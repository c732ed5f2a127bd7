import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { createImportRunsRepository } from '#src/modules/imports/import-runs.repository.ts';
import type { ImportRunRow } from '#src/modules/imports/imports.model.ts';
import { createConnectorDocumentsRepository } from '#src/modules/imports/sync-state.repository.ts';
import { useTestDatabase } from '#test/support/test-database.ts';

const [orgId, userId, connectionId, runId] = [uuidv7(), uuidv7(), uuidv7(), uuidv7()];

describe('missing files of a delta sync', () => {
  const own = useTestDatabase();
  let run: ImportRunRow;
  before(async () => {
    const { db } = own;
    const of = { orgId, connectionId };
    await db('organizations').insert({ id: orgId, name: 'o' });
    await db('users').insert({ id: userId, email: 'a@example.com', displayName: 'n' });
    await db('connections').insert({
      ...{ id: connectionId, orgId, userId, provider: 'acme_drive', displayName: 'd', status: 'active' },
      ...{ accountId: 'x', config: {}, credentials: 's', scopes: [] },
    });
    await db('importRuns').insert({ ...of, id: runId, kind: 'sync', jobId: 'sync-1', mode: 'delta' });
    run = (await createImportRunsRepository(db).findRun({ ...of, runId })) as ImportRunRow;
    const values = { ...of, userId, runId };
    await db.transaction(async (trx) => {
      // Disables triggers and foreign keys, so that no folders are needed.
      await trx.raw('set local session_replication_role = replica');
      await trx.raw(
        `with stored as (
           insert into documents (id, org_id, name, file_name, size_bytes, content_sha256, blob_key, rag_config, acl,
                                  created_by, updated_by)
           select gen_random_uuid(), :orgId, n, n, 1, n, n, '{"retrieval": {"a": 1}}', '{}', :userId, :userId
           from generate_series(1, 10000) n returning id, name as n)
         insert into connector_documents (org_id, connection_id, remote_id, document_id, revision, content_sha256, name,
                                          path, local_path, folder_id, seen_run_id)
         select :orgId, :connectionId, 'f' || n, id, 'r', n, 'n', 'Folder ' || n::integer % 500 || '/sub/file ' || n,
                '{}', :connectionId, :userId
         from stored`,
        values,
      );
      await trx.raw(
        `insert into connector_folders (org_id, connection_id, remote_id, path)
         select :orgId, :connectionId, 'd' || n, 'Folder ' || n from generate_series(0, 499) n`,
        values,
      );
    });
  });
  afterEach(() => own.db('importGone').delete());

  const addGone = (rows: string) =>
    own.db.raw(`insert into import_gone (org_id, run_id, remote_id, path) select ?, ?, ${rows}`, [orgId, runId]);

  it('counts 3,500 deleted ids among 10,000 files within the statement timeout', async () => {
    await addGone(`'f' || n, null from generate_series(1, 3500) n`);
    await own.db.transaction(async (trx) => {
      await trx.raw(`set local statement_timeout = '10s'`);
      const documents = createConnectorDocumentsRepository(trx);
      expect(await documents.countMissing(run)).deep.equal({ missing: 3_500, known: 10_000 });
      expect(await documents.listMissing(run)).length(50);
    });
  });

  it('counts files in deleted folders and below deleted paths, regardless of case', async () => {
    for (const [gone, expected] of [
      [`'d' || n, null from generate_series(1, 400) n`, 8_000],
      [`null, 'FOLDER ' || n || '/Sub' from generate_series(300, 449) n`, 9_000 - 20],
      [`null, 'folder 450/sub/FILE 450' from generate_series(1, 1) n`, 9_000 - 20 + 1],
    ] as const) {
      await addGone(gone);
      expect((await createConnectorDocumentsRepository(own.db).countMissing(run)).missing).equal(expected);
    }
  });
});
