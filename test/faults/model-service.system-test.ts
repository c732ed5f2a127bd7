import { expect } from 'chai';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { ingestionOn, sentences, untilChunked, uploadFile } from '#test/support/ingestion-steps.ts';
import { startScriptedModel } from '#test/support/scripted-model.ts';
import { answerEmbeddings } from '#test/support/scripted-server.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('the embedding of a document', function () {
  this.timeout(60_000);

  it('fails in a new process if the provider has changed the model behind a name, and with it the size of vectors', async () => {
    const model = await startScriptedModel();
    const models = { OPENAI_BASE_URL: model.baseUrl, EMBEDDING_MODEL: 'embedding-1' };
    const before = await startStack(models, { workers: false });
    const { database, dataDir } = before.config;
    const sameData = { DATABASE_URL: database.url, DATA_DIR: dataDir };
    const after = await startStack({ ...models, ...sameData }, { workers: false });
    const ada = await before.signUp();
    const prepare = async (own: Stack, count: number) =>
      ingestionOn(own).runAll(await uploadFile(ada, sentences(count)), untilChunked);
    const embed = (own: Stack, of: IngestDocumentInput) => ingestionOn(own).run('embedChunks', of);
    try {
      model.behaveEmbedding(answerEmbeddings((text) => [text.length, 1, 1]));
      await embed(before, await prepare(before, 3));
      model.behaveEmbedding(answerEmbeddings(() => [1, 0, 0, 0]));
      expect(await appErrorCode(embed(after, await prepare(after, 4)))).equal('embedding_model_changed');
    } finally {
      for (const part of [after, before, model]) await part.close();
    }
  });
});
