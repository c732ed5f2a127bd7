import { writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import type { IngestionActivities } from '#activities/ingestion.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { stubIngestion } from '#test/support/stub-ingestion.ts';
import { testWorkers } from '#test/support/test-workers.ts';

/*
 * Records histories of ingestDocument over stub activities; run by hand with the services of the tests, and only for a
 * new path through the workflow. What is recorded stays: it stands for the runs that are open when a version is deployed.
 */
const root = join(import.meta.dirname, '../..');

async function record(name: string, activities: IngestionActivities): Promise<void> {
  const temporal = await testWorkers();
  await temporal.withWorker(activities, async (taskQueue) => {
    const run = await temporal.client.workflow.start('ingestDocument', {
      workflowId: name,
      taskQueue,
      args: [{ orgId: 'org', documentId: 'document', generation: 1 }],
      typedSearchAttributes: searchAttributes({ OrgId: 'org', DocumentId: 'document', JobKind: 'ingest' }),
    });
    await run.result().catch(() => undefined);
    const history = historyToJSON(await run.fetchHistory());
    await writeFile(join(import.meta.dirname, 'histories', `${name}.json`), withoutMachine(history));
  });
  await temporal.close();
}

/** Where it was recorded is nobody's business. */
function withoutMachine(history: string): string {
  return history.replaceAll(root, '').replaceAll(`${process.pid}@${hostname()}`, 'worker');
}

await record('ingest-document-succeeded', stubIngestion().activities);
await record(
  'ingest-document-failed',
  stubIngestion({
    convertDocument: async () => {
      throw appError('encrypted_document');
    },
  }).activities,
);
