import { writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { stubAlignment } from '#test/support/stub-alignment.ts';
import { stubIngestion } from '#test/support/stub-ingestion.ts';
import { testWorkers } from '#test/support/test-workers.ts';

/*
 * Records histories of the workflows over stub activities; run by hand with the services of the tests, and only for a
 * new path through a workflow: `node test/replay/record.ts <name>`. What is recorded stays: it stands for the runs that
 * are open when a version is deployed.
 */
const root = join(import.meta.dirname, '../..');

const ingestion = {
  workflow: 'ingestDocument',
  args: [{ orgId: 'org', documentId: 'document', generation: 1 }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', DocumentId: 'document', JobKind: 'ingest' }),
};
const alignment = {
  workflow: 'scoreAlignment',
  args: [{ orgId: 'org', chatId: 'chat' }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', ChatId: 'chat', JobKind: 'alignment' }),
};

const recordings = {
  'ingest-document-succeeded': { ...ingestion, activities: stubIngestion().activities },
  'ingest-document-failed': {
    ...ingestion,
    activities: stubIngestion({
      convertDocument: async () => {
        throw appError('encrypted_document');
      },
    }).activities,
  },
  'score-alignment-succeeded': { ...alignment, activities: stubAlignment(3).activities },
  'score-alignment-named-beside': { ...alignment, activities: stubAlignment(3).activities },
  'score-alignment-failed': {
    ...alignment,
    activities: stubAlignment(1, {
      scoreNextRound: async () => {
        throw appError('chat_not_found');
      },
    }).activities,
  },
};

async function record(name: string, { workflow, activities, ...start }: Recording): Promise<void> {
  const temporal = await testWorkers();
  await temporal.withWorker(activities, async (taskQueue) => {
    const run = await temporal.client.workflow.start(workflow, { ...start, workflowId: name, taskQueue });
    await run.result().catch(() => undefined);
    const history = historyToJSON(await run.fetchHistory());
    await writeFile(join(import.meta.dirname, 'histories', `${name}.json`), withoutMachine(history));
  });
  await temporal.close();
}

type Recording = (typeof recordings)[keyof typeof recordings];

/** Where it was recorded is nobody's business. */
function withoutMachine(history: string): string {
  return history.replaceAll(root, '').replaceAll(`${process.pid}@${hostname()}`, 'worker');
}

for (const [name, recording] of Object.entries(recordings)) {
  if (process.argv.includes(name)) await record(name, recording);
}
