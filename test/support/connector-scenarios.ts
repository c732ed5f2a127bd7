import { DeleteObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { expect } from 'chai';
import { jobIdOfWorkflowPart, syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { s3Hosts } from './connector-s3.ts';
import { s3Fields } from './connector-stack.ts';
import type { FaultCase, Scenario } from './fault-case.ts';
import { importFiles, shelf, sync } from './import-stack.ts';
import { createBucket, type TestBucket } from './s3.ts';
import { until } from './until.ts';
import { type JobView, untilJob } from './until-job.ts';

/** Import scenarios for the fault drills; the provider is a bucket on the S3 server of the tests. */
const s3Url = process.env.TEST_S3_URL ?? '';
const settings = { EGRESS_ALLOW: s3Hosts().join() };
const names = Array.from({ length: 6 }, (_, n) => `files/${n}.txt`);

async function fill(): Promise<TestBucket> {
  const bucket = await createBucket(s3Url);
  for (const Key of names) {
    await bucket.client.send(new PutObjectCommand({ Bucket: bucket.settings.bucket, Key, Body: `Text of ${Key}.` }));
  }
  return bucket;
}

async function connectBucket({ member }: FaultCase, bucket: TestBucket): Promise<string> {
  const config = { sync: { enabled: false, interval_minutes: 60, delete_missing: true } };
  const { body } = await member.post('/connectors/acme_s3/connections', s3Fields(bucket, config), 201);
  return Object(body).id;
}

/** Imports a new bucket. @returns the id of the import job */
async function begin(own: FaultCase): Promise<string> {
  const connectionId = await connectBucket(own, await fill());
  const files = [{ path: 'files' }];
  const [result] = await importFiles(own.member, { connection_id: connectionId, files }, { wait: 0 });
  return result?.job_id ?? '';
}

const jobOf = async ({ member }: FaultCase, jobId: string) => (await member.get(`/jobs/${jobId}`, 200)).body as JobView;
async function retryUntilDone(own: FaultCase, jobId: string): Promise<void> {
  const retry = async () => {
    const { status } = await jobOf(own, jobId);
    if (['parked', 'failed'].includes(status)) await own.member.raw(`/jobs/${jobId}/retry`, { method: 'POST' });
    return status === 'succeeded';
  };
  await until('it succeeds at last', retry);
}

/** A scenario of an import whose job is driven to an end by `drive`. */
const scenario = (drive: (own: FaultCase, jobId: string) => Promise<void>, faults?: string): Scenario => ({
  ...{ settings, ...(faults !== undefined && { faults }) },
  drive: async (own) => {
    const jobId = await begin(own);
    await drive(own, jobId);
    return { documentId: null, jobId };
  },
});
const untilAllIsThere = async ({ member }: FaultCase) => expect(await shelf(member)).deep.equal(names);

export const importBucket = scenario(async (own, jobId) => {
  await untilJob(own.member, jobId, 'succeeded');
  await untilAllIsThere(own);
});

export const parkImport = scenario(async (own, jobId) => {
  await retryUntilDone(own, jobId);
  await untilAllIsThere(own);
}, 'listFiles:before:throw:model_not_configured:1');

export const failImport = scenario(async (own, jobId) => {
  await untilJob(own.member, jobId, 'failed');
  await retryUntilDone(own, jobId);
}, 'listFiles:before:throw:blob_missing');

export const cancelImport = scenario(async (own, jobId) => {
  await until('it imports', async () => (await jobOf(own, jobId)).stage === 'import');
  await own.stack.container.orchestrator.cancel(jobId);
  await untilJob(own.member, jobId, 'cancelled');
}, 'fetchFile:after_effect:hang');

export const terminateFile = scenario(async (own, jobId) => {
  const { workflow } = own.stack.container.temporal.client;
  for (const n of names.keys()) {
    const file = workflow.getHandle(jobIdOfWorkflowPart(jobId, `file-${n + 1}`));
    const isEnded = () =>
      file.terminate('It hangs.').then(
        () => true,
        () => false,
      );
    await until('its run is ended', isEnded);
  }
  await untilJob(own.member, jobId, 'succeeded');
}, 'fetchFile:before:hang');

export const syncBucket: Scenario = {
  settings,
  drive: async (own) => {
    const bucket = await fill();
    const connectionId = await connectBucket(own, bucket);
    await sync(own.member, connectionId, 'succeeded');
    const [Key = ''] = names;
    await bucket.client.send(new DeleteObjectCommand({ Bucket: bucket.settings.bucket, Key }));
    const run = await sync(own.member, connectionId, 'succeeded');
    expect(run).include({ deleted: 1, failed: 0 });
    expect(await shelf(own.member)).deep.equal(names.slice(1));
    return { documentId: null, jobId: run.job_id };
  },
};

export const queueByTime: Scenario = {
  settings,
  drive: async (own) => {
    const connectionId = await connectBucket(own, await fill());
    const jobId = syncWorkflowId(connectionId);
    const sync = { enabled: true, interval_minutes: 60 };
    await own.member.patch(`/connectors/connections/${connectionId}`, { config: { sync } }, 200);
    await own.stack.container.temporal.client.schedule.getHandle(jobId).trigger();
    await until('it is queued', async () => (await own.member.raw(`/jobs/${jobId}`)).status === 200);
    await untilJob(own.member, jobId, 'succeeded');
    return { documentId: null, jobId };
  },
};
