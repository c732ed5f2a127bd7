import { expect } from 'chai';
import { contentDigest } from '#test/support/content-digest.ts';
import { expectInvariants, startFaultCase } from '#test/support/fault-case.ts';
import { uploadLongText } from '#test/support/fault-scenarios.ts';
import { embeddedTexts } from '#test/support/scripted-model.ts';
import { untilJob } from '#test/support/until-job.ts';

/** Ingests the text, while the first worker process dies by the fault where one is given. */
async function ingest(fault: string | null) {
  const own = await startFaultCase();
  try {
    const queue = { WORKER_QUEUES: 'ingestion' };
    const victim = await own.startWorker({ ...queue, ...(fault !== null && { NODE_ENV: 'test', FAULTS: fault }) });
    const { documentId, jobId } = await uploadLongText(own);
    if (fault !== null) {
      expect(await victim.ended).equal('SIGKILL');
      await own.startWorker(queue);
    }
    await untilJob(own.member, jobId, 'succeeded');
    await expectInvariants(own.stack);
    return { digest: await contentDigest(own.stack.container.db, documentId), texts: embeddedTexts(own.model) };
  } finally {
    await own.close();
  }
}

describe('a worker process that is killed after it stored embeddings', () => {
  it('leaves a run that the next worker ends with the same content, embedding no text twice', async () => {
    const [undisturbed, killed] = await Promise.all([ingest(null), ingest('embedChunks:after_effect:kill')]);
    expect(killed.digest).equal(undisturbed.digest);
    expect(killed.texts).members(undisturbed.texts);
  });
});
