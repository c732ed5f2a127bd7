import { DeleteObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { expect } from 'chai';
import { jobIdOfWorkflowPart, syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { s3Fields } from '#test/support/connector-stack.ts';
import type { FaultCase } from '#test/support/fault-case.ts';
import { importFiles, shelf, sync } from '#test/support/import-stack.ts';
import { createBucket, s3Hosts } from '#test/support/s3.ts';
import { until } from '#test/support/until.ts';
import { endsOf, type Scenario } from './scenario.ts';

/** The provider is a bucket on the S3 server of the tests. */
const settings = { EGRESS_ALLOW: s3Hosts().join() };
const names = Array.from({ length: 6 }, (_, n) => `files/${n}.txt`);

async function connectBucket({ member }: FaultCase) {
  const bucket = await createBucket(process.env.TEST_S3_URL ?? '');
  for (const Key of names) {
    await bucket.client.send(new PutObjectCommand({ Bucket: bucket.settings.bucket, Key, Body: `Text of ${Key}.` }));
  }
  const config = { sync: { enabled: false, interval_minutes: 60, delete_missing: true } };
  const { body } = await member.post('/connectors/acme_s3/connections', s3Fields(bucket, config), 201);
  return { bucket, connectionId: String(Object(body).id) };
}

async function beginImport(own: FaultCase): Promise<string> {
  const { connectionId } = await connectBucket(own);
  const request = { connection_id: connectionId, files: [{ path: 'files' }] };
  const [result] = await importFiles(own.member, request, { wait: 0 });
  return result?.job_id ?? '';
}

const expectAll = async ({ member }: FaultCase) => expect(await shelf(member)).deep.equal(names);
const imports = endsOf(beginImport, settings);

export const importBucket = imports.succeeds(expectAll);
export const parkImport = imports.isParked('listFiles:before:throw:model_not_configured:1', expectAll);
export const failImport = imports.fails('listFiles:before:throw:blob_missing');
export const cancelImport = imports.isCancelled('fetchFile:after_effect:hang', 'import');

export const syncBucket: Scenario = {
  settings,
  drive: async (own) => {
    const { bucket, connectionId } = await connectBucket(own);
    await sync(own.member, connectionId, 'succeeded');
    const [Key = ''] = names;
    await bucket.client.send(new DeleteObjectCommand({ Bucket: bucket.settings.bucket, Key }));
    const run = await sync(own.member, connectionId, 'succeeded');
    expect(run).include({ deleted: 1, failed: 0 });
    expect(await shelf(own.member)).deep.equal(names.slice(1));
    return { jobId: run.job_id };
  },
};

async function beginScheduledSync(own: FaultCase): Promise<string> {
  const { connectionId } = await connectBucket(own);
  const jobId = syncWorkflowId(connectionId);
  const schedule = { sync: { enabled: true, interval_minutes: 60 } };
  await own.member.patch(`/connectors/connections/${connectionId}`, { config: schedule }, 200);
  await own.stack.container.temporal.client.schedule.getHandle(jobId).trigger();
  await until('the sync is queued', async () => (await own.member.raw(`/jobs/${jobId}`)).status === 200);
  return jobId;
}
export const syncBySchedule = endsOf(beginScheduledSync, settings).succeeds();

async function beginAndTerminateFiles(own: FaultCase): Promise<string> {
  const jobId = await beginImport(own);
  const { workflow } = own.stack.container.temporal.client;
  for (const n of names.keys()) {
    const file = workflow.getHandle(jobIdOfWorkflowPart(jobId, `file-${n + 1}`));
    const terminate = () => file.terminate('It hangs.').then(Boolean, () => false);
    await until('the run of the file is terminated', terminate);
  }
  return jobId;
}
export const terminateFiles: Scenario = {
  ...endsOf(beginAndTerminateFiles, settings).succeeds(),
  faults: 'fetchFile:before:hang',
};
