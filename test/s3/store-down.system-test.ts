import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { startTcpProxy, type TcpProxy } from '#test/support/proxies.ts';
import { openBucket, type TestBucket } from '#test/support/s3.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { type JobView, untilJob } from '#test/support/until-job.ts';

describe('while the object store is down (F17)', () => {
  let bucket: TestBucket;
  let proxy: TcpProxy;
  let stack: Stack;
  before(async function () {
    bucket = await openBucket(this);
    proxy = await startTcpProxy({ port: Number(new URL(bucket.settings.endpoint).port) });
    const settings = { ...bucket.environment, S3_ENDPOINT: `http://127.0.0.1:${proxy.port}` };
    stack = await startStack(settings, { workers: 'all' });
  });
  after(async () => {
    await stack?.close();
    await proxy?.close();
  });

  it('uploads and downloads are refused with 503, runs wait, and all work is completed once the store is back', async () => {
    const ada = await stack.signUp();
    const form = { name: 'a.txt', content: 'kept before' };
    const before = fullDocumentSchema.parse(
      (await ada.upload('/documents', form, 201, { fields: { ingest: 'false' } })).body,
    );
    const doomed = await uploadText(ada, 'deleted while the store is away');
    await untilJob(ada, doomed.jobId, 'succeeded');
    const countDocuments = async () => (await stack.container.db('documents').select('id')).length;
    const count = await countDocuments();

    proxy.cut();
    const refused = await ada.upload('/documents', { name: 'b.txt', content: 'refused' }, 503);
    expect(refused.body).include({ code: 'service_unavailable' });
    expect(Number(refused.headers.get('retry-after'))).greaterThan(0);
    expect((await ada.get(`/documents/${before.id}/file`, 503)).body).include({ code: 'service_unavailable' });
    expect((await ada.get('/readyz', 200)).body).deep.include({ status: 'ready' });
    expect(await countDocuments()).equal(count);

    await ada.post(`/rag/ingest/${before.id}`, {}, 200);
    const jobId = `ingest-${before.id}-1`;
    await ada.delete(`/documents/${doomed.documentId}`, 204);
    for (const waiting of [jobId, `delete-${doomed.documentId}`]) {
      const said = await until(`${waiting} says what it waits for`, async () => {
        const job = (await ada.get(`/jobs/${waiting}`, 200)).body as JobView;
        return job.last_error === null ? null : job;
      });
      expect(said.last_error).include({ code: 'service_unavailable' });
    }

    proxy.heal();
    await untilJob(ada, jobId, 'succeeded');
    await untilJob(ada, `delete-${doomed.documentId}`, 'succeeded');
    expect((await ada.get(`/documents/${before.id}/file`, 200)).body).equal('kept before');
    expect(await bucket.keys('incoming/')).deep.equal([]);
    await expectInvariants(stack);
  });
});
