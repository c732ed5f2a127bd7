import { expect } from 'chai';
import { contentDigest } from '#test/support/content-digest.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { measured } from '#test/support/fault-run.ts';
import { sentences, uploadFile } from '#test/support/ingestion-steps.ts';
import { type GrpcProxy, startGrpcProxy, startTcpProxy, type TcpProxy } from '#test/support/proxies.ts';
import { embeddedTexts, type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { createTestDatabase, testServices } from '#test/support/services.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';
import { untilClosed } from '#test/support/workflow-run.ts';
import { useFaultCase } from './use-fault-case.ts';

describe('F3: an upload whose API process dies', function () {
  this.timeout(120_000);
  const { own, startApi } = useFaultCase();
  let temporal: GrpcProxy;
  before(async () => {
    temporal = await startGrpcProxy(testServices().temporalAddress);
    await own.startWorker();
  });
  after(() => temporal.close());

  const moments = {
    'between its commit and the start of the run': 'hold',
    'after the start of the run, without the response of Temporal': 'drop_answer',
  } as const;
  for (const [moment, fate] of Object.entries(moments)) {
    it(`is ingested by one run, which another process starts (the API dies ${moment})`, async () => {
      const { db, temporal: connection } = own.stack.container;
      const api = await startApi({ TEMPORAL_ADDRESS: temporal.address });
      const reached = temporal.next('StartWorkflowExecution', fate);
      const uploading = uploadText(own.member.at(api.baseUrl), `Of the moment ${moment}.`).catch(() => undefined);
      await reached;
      await api.kill();
      await uploading;

      const job = await until('the run is started', async () => {
        const newest = await db('jobs').orderBy('createdAt', 'desc').first('id', 'createdAt', 'startedAt');
        return newest?.startedAt && newest;
      });
      measured('started after', job.startedAt.getTime() - job.createdAt.getTime(), 3_000);
      await untilJob(own.member, job.id, 'succeeded');
      const count = async () => (await connection.client.workflow.count(`WorkflowId = '${job.id}'`)).count;
      await until('the run is listed', async () => (await count()) > 0);
      expect(await count()).equal(1);
      await expectInvariants(own.stack);
    });
  }
});

describe('F8: an ingestion that loses the response', function () {
  this.timeout(120_000);
  let own: Stack;
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let postgres: TcpProxy;
  let temporal: GrpcProxy;
  let model: ScriptedModel;
  let models: TcpProxy;
  let undisturbed: { digest: string; texts: number };

  before(async () => {
    [database, temporal] = [await createTestDatabase(), await startGrpcProxy(testServices().temporalAddress)];
    model = await startScriptedModel();
    const databaseUrl = new URL(database.url);
    postgres = await startTcpProxy({ port: Number(databaseUrl.port) });
    databaseUrl.port = String(postgres.port);
    models = await startTcpProxy({ port: Number(new URL(model.baseUrl).port) });
    const modelUrl = `http://127.0.0.1:${models.port}/v1`;
    own = await startStack({
      DATABASE_URL: databaseUrl.href,
      TEMPORAL_ADDRESS: temporal.address,
      OPENAI_BASE_URL: modelUrl,
      ALIGNMENT_EMBEDDING_BASE_URL: modelUrl,
    });
    undisturbed = await ingest(async () => undefined);
  });
  after(async () => {
    await own.close();
    await Promise.all([postgres.close(), temporal.close(), model.close(), models.close()]);
    await database.drop();
  });

  /** Ingests the text in a new organization, which has embedded nothing yet. */
  async function ingest(lose: () => Promise<void>): Promise<{ digest: string; texts: number }> {
    const member = await own.signUp();
    model.calls.length = 0;
    const lost = lose();
    // A user whose upload is not answered looks for it; the service does not lose what it has accepted.
    await uploadFile(member, sentences(90, 'of the text')).catch(() => undefined);
    const { db } = own.container;
    const { id, documentId } = await db('jobs').where({ orgId: member.orgId }).first();
    await untilJob(member, id, 'succeeded');
    await lost;
    expect(await untilClosed(own.container, id)).equal('completed');
    expect(await db('documents').where({ orgId: member.orgId })).length(1);
    await expectInvariants(own);
    return { digest: await contentDigest(db, documentId), texts: embeddedTexts(model).length };
  }

  const postgresTo = (text: string, after?: string) => () => postgres.dropAnswerTo(text, after);
  const temporalTo = (method: string) => () => temporal.next(method, 'drop_answer');
  const answers: Record<string, () => Promise<void>> = {
    'of Postgres to the commit of an upload': postgresTo('COMMIT', 'insert into jobs'),
    'of Postgres to the insert of a conversion': postgresTo('insert into "conversions"'),
    'of Postgres to the commit of the chunks': postgresTo('COMMIT', 'insert into document_terms'),
    'of Postgres to the insert of vectors': postgresTo('insert into chunk_vectors'),
    'of Postgres to the update that marks chunks as embedded': postgresTo('update chunks set embedded_at'),
    'of Postgres to the commit of the activation': postgresTo('COMMIT', '"active_generation" = '),
    'of Postgres to the update of the job': postgresTo('update "jobs"'),
    'of Temporal to the start of the run': temporalTo('StartWorkflowExecution'),
    'of Temporal to a workflow task': temporalTo('RespondWorkflowTaskCompleted'),
    'of Temporal to the completion of a step': temporalTo('RespondActivityTaskCompleted'),
  };
  for (const [what, lose] of Object.entries(answers)) {
    it(`${what} makes the same content and model calls as without the fault`, async () => {
      expect(await ingest(lose)).deep.equal(undisturbed);
    });
  }

  const callsUnderWay: Record<string, () => Promise<void>> = {
    'of the embedding model': () => models.dropAnswerTo('/v1/embeddings'),
    'of Postgres to the insert of cached vectors': postgresTo('insert into embeddings'),
  };
  for (const [what, lose] of Object.entries(callsUnderWay)) {
    it(`${what} repeats the embedding calls in flight at most once`, async () => {
      const { digest, texts } = await ingest(lose);
      expect(digest).equal(undisturbed.digest);
      expect(texts - undisturbed.texts).within(0, undisturbed.texts);
    });
  }
});
