import { expect } from 'chai';
import { startApiProcess } from '#test/support/child-processes.ts';
import { expectInvariants, type FaultCase, startFaultCase, uploadText } from '#test/support/fault-case.ts';
import { measured } from '#test/support/fault-run.ts';
import { type GrpcProxy, startGrpcProxy } from '#test/support/grpc-proxy.ts';
import { testServices } from '#test/support/services.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('F3: an API that dies with an upload in its hands', function () {
  this.timeout(120_000);
  let own: FaultCase;
  let temporal: GrpcProxy;

  before(async () => {
    temporal = await startGrpcProxy(testServices().temporalAddress);
    own = await startFaultCase();
    await own.startWorker();
  });
  after(async () => {
    await own.close();
    await temporal.close();
  });

  const moments = {
    'between its commit and the start of the run': 'hold',
    'after the start, of which it has not heard': 'drop_answer',
  } as const;
  for (const [moment, fate] of Object.entries(moments)) {
    it(`${moment}: the run is started without it, and once`, async () => {
      const { db, temporal: connection } = own.stack.container;
      const api = await startApiProcess(own.stack, { TEMPORAL_ADDRESS: temporal.address });
      const reached = temporal.next('StartWorkflowExecution', fate);
      const uploading = uploadText(own.member.at(api.baseUrl), `Of the moment ${moment}.`).catch(() => undefined);
      await reached;
      await api.kill();
      await uploading;

      const find = () => db('jobs').orderBy('createdAt', 'desc').first('id', 'documentId', 'createdAt', 'startedAt');
      const job = await until('the run is started', async () => {
        const newest = await find();
        return newest?.startedAt && newest;
      });
      measured('started after', job.startedAt.getTime() - job.createdAt.getTime(), 3_000);
      await untilJob(own.member, job.id, 'succeeded');
      const query = `WorkflowId = '${job.id}'`;
      const count = () => connection.client.workflow.count(query);
      await until('the run is listed', async () => (await count()).count > 0);
      expect(await count()).include({ count: 1 });
      await expectInvariants(own.stack);
    });
  }
});
