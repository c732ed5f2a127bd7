import { expect } from 'chai';
import { exportWorkflowId } from '#src/contracts/workflow-ids.ts';
import { exportSchema } from '#src/modules/exports/exports.schema.ts';
import { downloaded, recordsOf, unpack } from './exported.ts';
import { type FaultCase, type Scenario, uploadText } from './fault-case.ts';
import { until } from './until.ts';
import { type JobView, untilJob } from './until-job.ts';

const texts = Array.from({ length: 5 }, (_, n) => `Text number ${n}.`);

const jobOf = async ({ member }: FaultCase, jobId: string) => (await member.get(`/jobs/${jobId}`, 200)).body as JobView;

async function retryUntilDone(own: FaultCase, jobId: string): Promise<void> {
  await until('the export succeeds', async () => {
    const { status } = await jobOf(own, jobId);
    if (['parked', 'failed'].includes(status)) await own.member.raw(`/jobs/${jobId}/retry`, { method: 'POST' });
    return status === 'succeeded';
  });
}

/** Checks that the export holds each document once, with its file, and that no other blob is left. */
async function expectComplete({ member, stack }: FaultCase, jobId: string): Promise<void> {
  const exportId = jobId.replace(exportWorkflowId(''), '');
  const { volumes } = exportSchema.parse((await member.get(`/entity/org/exports/${exportId}`, 200)).body);
  const files = await unpack(await downloaded(volumes));
  const exported = recordsOf(files, 'documents').map(({ original }) => String(files.get(Object(original).path)));
  expect(exported.sort()).deep.equal(texts);
  const { db, blobs } = stack.container;
  // A blob stored by a killed worker is deleted, now or by the sweeper, which finds it by its claim.
  const known: string[] = await db('exportVolumes').pluck('blob_key');
  for (const table of ['blobClaims', 'documents']) {
    known.push(...(await db(table).where({ orgId: member.orgId }).pluck('blob_key')));
  }
  const stored = await blobs.list({ after: null, limit: 1_000 });
  expect(stored.filter(({ key }) => !known.includes(key))).deep.equal([]);
}

/** An export of some documents, with faults. */
const scenario = (drive: (own: FaultCase, jobId: string) => Promise<unknown>, faults?: string): Scenario => ({
  ...(faults !== undefined && { faults }),
  drive: async (own) => {
    for (const text of texts) await uploadText(own.member, text, { ingest: 'false' });
    const jobId: string = Object((await own.member.post('/entity/org/exports', undefined, 202)).body).job_id;
    await drive(own, jobId);
    return { documentId: null, jobId };
  },
});

/** An export that is complete in the end. */
const completed = (drive: (own: FaultCase, jobId: string) => Promise<unknown>, faults?: string) =>
  scenario(async (own, jobId) => {
    await drive(own, jobId);
    await expectComplete(own, jobId);
  }, faults);

export const exportOnce = completed(({ member }, jobId) => untilJob(member, jobId, 'succeeded'));
export const parkExport = completed(retryUntilDone, 'writeVolume:before:throw:blob_store_refused:1');
export const failExport = completed(async (own, jobId) => {
  await untilJob(own.member, jobId, 'failed');
  await retryUntilDone(own, jobId);
}, 'writeVolume:before:throw:forbidden');

export const cancelExport = scenario(async (own, jobId) => {
  await until('it writes', async () => (await jobOf(own, jobId)).stage === 'write');
  await own.stack.container.orchestrator.cancel(jobId);
  await untilJob(own.member, jobId, 'cancelled');
  expect(await own.stack.container.db('exportVolumes')).deep.equal([]);
}, 'writeVolume:after_effect:hang');
