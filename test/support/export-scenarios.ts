import { expect } from 'chai';
import { exportWorkflowId } from '#src/contracts/workflow-ids.ts';
import { exportSchema } from '#src/modules/exports/exports.schema.ts';
import { downloaded, recordsOf, unpack } from './exported.ts';
import { type FaultCase, type Scenario, uploadText } from './fault-case.ts';
import { until } from './until.ts';
import { type JobView, untilJob } from './until-job.ts';

const names = Array.from({ length: 5 }, (_, n) => `Text number ${n}.`);

const jobOf = async ({ member }: FaultCase, jobId: string) => (await member.get(`/jobs/${jobId}`, 200)).body as JobView;

/** Starts an export of some documents. @returns the id of its job */
async function begin(own: FaultCase): Promise<string> {
  for (const text of names) await uploadText(own.member, text, { ingest: 'false' });
  return Object((await own.member.post('/entity/org/exports', undefined, 202)).body).job_id;
}

async function retryUntilDone(own: FaultCase, jobId: string): Promise<void> {
  const retry = async () => {
    const { status } = await jobOf(own, jobId);
    if (['parked', 'failed'].includes(status)) await own.member.raw(`/jobs/${jobId}/retry`, { method: 'POST' });
    return status === 'succeeded';
  };
  await until('it succeeds at last', retry);
}

/** Checks that the export holds each document once, with its file. */
async function expectAllIsThere({ member, stack }: FaultCase, jobId: string): Promise<void> {
  const exportId = jobId.replace(exportWorkflowId(''), '');
  const { volumes } = exportSchema.parse((await member.get(`/entity/org/exports/${exportId}`, 200)).body);
  const files = await unpack(await downloaded(volumes));
  const texts = recordsOf(files, 'documents').map(({ original }) => String(files.get(Object(original).path)));
  expect(texts.sort()).deep.equal(names);
  // A blob stored by a killed worker is deleted, now or by the sweeper.
  const claims = await stack.container.db('blobClaims').where({ orgId: member.orgId }).select('blobKey');
  const kept = [...(await stack.container.db('exportVolumes').select('blobKey')), ...claims];
  const documents = await stack.container.db('documents').where({ orgId: member.orgId }).select('blobKey');
  const known = new Set([...kept, ...documents].map(({ blobKey }) => blobKey));
  const stored = await stack.container.blobs.list({ after: null, limit: 1_000 });
  expect(stored.filter(({ key }) => !known.has(key))).deep.equal([]);
}

const ended = (faults: string | undefined, drive: (own: FaultCase, jobId: string) => Promise<unknown>): Scenario => ({
  ...(faults !== undefined && { faults }),
  drive: async (own) => {
    const jobId = await begin(own);
    await drive(own, jobId);
    return { documentId: null, jobId };
  },
});

/** Fault scenarios of exports. */
export const exportOnce = ended(undefined, async (own, jobId) => {
  await untilJob(own.member, jobId, 'succeeded');
  await expectAllIsThere(own, jobId);
});

export const parkExport = ended('writeVolume:before:throw:blob_store_refused:1', async (own, jobId) => {
  await retryUntilDone(own, jobId);
  await expectAllIsThere(own, jobId);
});

export const failExport = ended('writeVolume:before:throw:forbidden', async (own, jobId) => {
  await untilJob(own.member, jobId, 'failed');
  await retryUntilDone(own, jobId);
  await expectAllIsThere(own, jobId);
});

export const cancelExport = ended('writeVolume:after_effect:hang', async (own, jobId) => {
  await until('it writes', async () => (await jobOf(own, jobId)).stage === 'write');
  await own.stack.container.orchestrator.cancel(jobId);
  await untilJob(own.member, jobId, 'cancelled');
  expect(await own.stack.container.db('exportVolumes')).deep.equal([]);
});
