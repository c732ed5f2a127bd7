import { DeleteObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { expect } from 'chai';
import { jobIdOfWorkflowPart, syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { s3Fields } from './connector-stack.ts';
import type { FaultCase } from './fault-case.ts';
import { endsOf, type Scenario } from './fault-scenario.ts';
import { importFiles, shelf, sync } from './import-stack.ts';
import { createBucket, s3Hosts, type TestBucket } from './s3.ts';
import { until } from './until.ts';
import { untilJob } from './until-job.ts';

/** Import scenarios for the fault drills; the provider is a bucket on the S3 server of the tests. */
const settings = { EGRESS_ALLOW: s3Hosts().join() };
const names = Array.from({ length: 6 }, (_, n) => `files/${n}.txt`);

async function connectBucket({ member }: FaultCase): Promise<{ bucket: TestBucket; connectionId: string }> {
  const bucket = await createBucket(process.env.TEST_S3_URL ?? '');
  for (const Key of names) {
    await bucket.client.send(new PutObjectCommand({ Bucket: bucket.settings.bucket, Key, Body: `Text of ${Key}.` }));
  }
  const config = { sync: { enabled: false, interval_minutes: 60, delete_missing: true } };
  const { body } = await member.post('/connectors/acme_s3/connections', s3Fields(bucket, config), 201);
  return { bucket, connectionId: Object(body).id };
}

async function beginImport(own: FaultCase): Promise<string> {
  const { connectionId } = await connectBucket(own);
  const request = { connection_id: connectionId, files: [{ path: 'files' }] };
  const [result] = await importFiles(own.member, request, { wait: 0 });
  return result?.job_id ?? '';
}

const expectAll = async ({ member }: FaultCase) => expect(await shelf(member)).deep.equal(names);
const ends = endsOf(beginImport, settings);

export const importBucket = ends.succeeds(expectAll);
export const parkImport = ends.isParked('listFiles:before:throw:model_not_configured:1', expectAll);
export const failImport = ends.fails('listFiles:before:throw:blob_missing');
export const cancelImport = ends.isCancelled('fetchFile:after_effect:hang', 'import');

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
    return { documentId: null, jobId: run.job_id };
  },
};

export const syncBySchedule: Scenario = {
  settings,
  drive: async (own) => {
    const { connectionId } = await connectBucket(own);
    const jobId = syncWorkflowId(connectionId);
    const sync = { enabled: true, interval_minutes: 60 };
    await own.member.patch(`/connectors/connections/${connectionId}`, { config: { sync } }, 200);
    await own.stack.container.temporal.client.schedule.getHandle(jobId).trigger();
    await until('the sync is queued', async () => (await own.member.raw(`/jobs/${jobId}`)).status === 200);
    await untilJob(own.member, jobId, 'succeeded');
    return { documentId: null, jobId };
  },
};

export const terminateFile: Scenario = {
  settings,
  faults: 'fetchFile:before:hang',
  drive: async (own) => {
    const jobId = await beginImport(own);
    const { client } = own.stack.container.temporal;
    for (const n of names.keys()) {
      const file = client.workflow.getHandle(jobIdOfWorkflowPart(jobId, `file-${n + 1}`));
      const terminate = () => file.terminate('It hangs.').then(Boolean, () => false);
      await until('the run of the file is terminated', terminate);
    }
    await untilJob(own.member, jobId, 'succeeded');
    return { documentId: null, jobId };
  },
};
