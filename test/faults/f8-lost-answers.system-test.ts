import { expect } from 'chai';
import type { Member } from '#test/support/client.ts';
import { contentDigest } from '#test/support/content-digest.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { type GrpcProxy, startGrpcProxy } from '#test/support/grpc-proxy.ts';
import { embeddedTexts, type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { createTestDatabase, testServices } from '#test/support/services.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { startTcpProxy, type TcpProxy } from '#test/support/tcp-proxy.ts';
import { untilJob } from '#test/support/until-job.ts';
import { untilClosed } from '#test/support/workflow-run.ts';

const content = Array.from({ length: 90 }, (_, index) => `Sentence ${index} of the text says something.`).join(' ');
const chunking = { target_tokens: '14', overlap_tokens: '0' };

describe('F8: an answer that is lost although the work was done', function () {
  this.timeout(120_000);
  let own: Stack;
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let postgres: TcpProxy;
  let temporal: GrpcProxy;
  let model: ScriptedModel;
  let models: TcpProxy;
  let undisturbed: { digest: string; texts: number };

  before(async () => {
    database = await createTestDatabase();
    postgres = await startTcpProxy({ port: Number(new URL(database.url).port) });
    temporal = await startGrpcProxy(testServices().temporalAddress);
    model = await startScriptedModel();
    models = await startTcpProxy({ port: Number(new URL(model.baseUrl).port) });
    const databaseUrl = new URL(database.url);
    databaseUrl.port = String(postgres.port);
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

  /** Of an organization of its own, which has embedded nothing yet. */
  async function ingest(lose: (member: Member) => Promise<void>): Promise<{ digest: string; texts: number }> {
    const member = await own.signUp();
    model.calls.length = 0;
    const lost = lose(member);
    // A user whose upload is not answered looks for it; the service does not lose what it has taken.
    await uploadText(member, content, chunking).catch(() => undefined);
    const { db } = own.container;
    const { id, documentId } = await db('jobs').where({ orgId: member.orgId }).first();
    await untilJob(member, id, 'succeeded');
    await lost;
    expect(await untilClosed(own.container, id)).equal('completed');
    expect(await db('documents').where({ orgId: member.orgId })).length(1);
    await expectInvariants(own);
    return { digest: await contentDigest(db, documentId), texts: embeddedTexts(model).length };
  }

  const commit = 'COMMIT';
  const statements: Record<string, [text: string, after?: string]> = {
    'the commit of an upload': [commit, 'insert into jobs'],
    'a conversion': ['insert into "conversions"'],
    'the commit of the chunks': [commit, 'insert into document_terms'],
    'vectors that are stored': ['insert into chunk_vectors'],
    'marks of what is embedded': ['update chunks set embedded_at'],
    'the commit of the activation': [commit, '"active_generation" = '],
    'the state of the job': ['update "jobs"'],
  };
  for (const [what, statement] of Object.entries(statements)) {
    it(`of Postgres to ${what}: nothing is lost or doubled`, async () => {
      expect(await ingest(() => postgres.dropAnswerTo(...statement))).deep.equal(undisturbed);
    });
  }

  const underWay = {
    'of the model': () => models.dropAnswerTo('/v1/embeddings'),
    'of Postgres to vectors that are kept': () => postgres.dropAnswerTo('insert into embeddings'),
  };
  for (const [what, lose] of Object.entries(underWay)) {
    it(`${what}: the calls that were under way are repeated once`, async () => {
      const { digest, texts } = await ingest(lose);
      expect(digest).equal(undisturbed.digest);
      expect(texts - undisturbed.texts).within(0, undisturbed.texts);
    });
  }

  const calls = ['StartWorkflowExecution', 'RespondWorkflowTaskCompleted', 'RespondActivityTaskCompleted'];
  for (const method of calls) {
    it(`of Temporal to ${method}: nothing is lost or doubled`, async () => {
      expect(await ingest(() => temporal.next(method, 'drop_answer'))).deep.equal(undisturbed);
    });
  }
});
