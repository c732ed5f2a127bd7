import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { expect } from 'chai';
import { createIngestionActivities, type IngestionActivities } from '#activities/ingestion.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import type { Member } from '#test/support/client.ts';
import { uploadText } from '#test/support/fault-case.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { answerEmbeddings, answerError, type ScriptedAnswer } from '#test/support/scripted-server.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('the embedding of a document', function () {
  this.timeout(60_000);
  let model: ScriptedModel;
  const stacks: Stack[] = [];
  before(async () => {
    model = await startScriptedModel();
  });
  after(async () => {
    for (const stack of stacks.reverse()) await stack.close();
    await model.close();
  });

  const healthy = answerEmbeddings((text) => [text.length, text.charCodeAt(text.length - 4), 1], 'embedding-1');

  async function startService(settings: Record<string, string> = {}): Promise<Stack> {
    const models = { OPENAI_BASE_URL: model.baseUrl, EMBEDDING_MODEL: 'embedding-1' };
    const own = await startStack({ ...models, ...settings }, { workers: false });
    stacks.push(own);
    return own;
  }
  /** Another process on the same data: it does not know of a pause that the model service asked for. */
  const besides = ({ config }: Stack) => startService({ DATABASE_URL: config.database.url, DATA_DIR: config.dataDir });

  async function run(own: Stack, names: readonly (keyof IngestionActivities)[], of: IngestDocumentInput) {
    const activities = createIngestionActivities(own.container);
    const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR') });
    for (const name of names) {
      await environment.run(activities[name] as (input: IngestDocumentInput) => Promise<unknown>, of);
    }
  }
  const prepare = ['parseDocument', 'convertDocument', 'chunkDocument'] as const;
  const embed = ['embedChunks', 'activateGeneration'] as const;
  const codeOfEmbedding = (own: Stack, of: IngestDocumentInput): Promise<unknown> =>
    run(own, ['embedChunks'], of).then(
      () => 'success',
      (error: unknown) => Object(error).code,
    );

  async function upload(own: Stack, member: Member, sentences: number): Promise<IngestDocumentInput> {
    const content = Array.from({ length: sentences }, (_, index) => `Sentence ${index} of ${crypto.randomUUID()}.`);
    const fields = { target_tokens: '24', overlap_tokens: '0' };
    const { documentId } = await uploadText(member, content.join(' '), fields);
    const of = { orgId: member.orgId, documentId, generation: 1 };
    await run(own, prepare, of);
    return of;
  }
  const count = async ({ container }: Stack, table: string, where: object = {}) =>
    Number((await container.db(table).where(where).count({ count: '*' }).first())?.count);

  const faults: [what: string, answer: ScriptedAnswer, code: string][] = [
    ['is busy for long', answerError(429, 'slow down', { 'retry-after': '600' }), 'model_unavailable'],
    [
      'hangs up in the middle of its answer',
      (response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
        response.write('{"data":', () => response.destroy());
      },
      'model_unavailable',
    ],
    ['returns vectors of another size', answerEmbeddings(() => [1, 0]), 'model_response_invalid'],
    ['answers with another model', answerEmbeddings(() => [1, 0, 0], 'another-model'), 'model_response_invalid'],
  ];
  for (const [what, answer, code] of faults) {
    it(`stores no vector while the model service ${what}, and all vectors once the service is healthy`, async () => {
      model.behaveEmbedding(healthy);
      const own = await startService();
      const ada = await own.signUp();
      await run(own, embed, await upload(own, ada, 3));
      const kept = await count(own, 'embeddings');

      const of = await upload(own, ada, 5);
      const { documentId } = of;
      model.behaveEmbedding(answer);
      expect(await codeOfEmbedding(own, of)).equal(code);
      expect(await count(own, 'chunkVectors', { documentId })).equal(0);
      expect(await count(own, 'embeddings')).equal(kept);
      expect(await own.container.db('chunks').where({ documentId }).whereNotNull('embeddedAt')).deep.equal([]);
      model.behaveEmbedding(healthy);
      await run(await besides(own), embed, of);
      expect(await count(own, 'chunkVectors', { documentId })).above(1);
    });
  }

  it('fails in a new process if the provider has changed the model behind a name, and with it the size of vectors', async () => {
    model.behaveEmbedding(healthy);
    const first = await startService();
    const ada = await first.signUp();
    await run(first, embed, await upload(first, ada, 3));
    model.behaveEmbedding(answerEmbeddings(() => [1, 0, 0, 0]));
    const changed = await besides(first);
    expect(await codeOfEmbedding(changed, await upload(changed, ada, 4))).equal('embedding_model_changed');
  });
});
