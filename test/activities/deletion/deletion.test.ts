import { expect } from 'chai';
import { createDeletionActivities } from '#activities/deletion.ts';
import type { DeleteDocumentInput } from '#src/contracts/deletion.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { deletionWorkflowId, ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { ingestionOn, runActivity, sentences, untilChunked, uploadFile } from '#test/support/ingestion-steps.ts';
import { answerEmbeddings } from '#test/support/scripted-server.ts';
import { useIdleStack } from '#test/support/stack.ts';
import { remainsOf, tracesOf } from '#test/support/stores.ts';

const deletionSteps = [
  ...(['stopIngestion', 'deleteVectors', 'deleteChunks'] as const),
  ...(['deleteOriginal', 'forgetDocument', 'recordDeletion'] as const),
];
const healthy = answerEmbeddings((text) => [text.length, text.charCodeAt(text.length - 4), 1], 'embedding-1');

describe('deletion activities', () => {
  const own = useIdleStack({ EMBEDDING_MODEL: 'embedding-1' }, (model) => model.behaveEmbedding(healthy));
  const ingestion = ingestionOn(own);
  const remove = (name: (typeof deletionSteps)[number], of: DeleteDocumentInput) =>
    runActivity(createDeletionActivities(own.container)[name], of);
  const upload = (word: string) => uploadFile(own.ada, sentences(9, word));
  const ingested = async (word: string) => ingestion.runAll(await upload(word));
  const markDeleted = ({ documentId }: DeleteDocumentInput) => own.ada.delete(`/documents/${documentId}`, 204);
  const pointsOf = ({ documentId }: DeleteDocumentInput) => own.db('chunkVectors').where({ documentId });
  const jobOf = (id: string) => own.db('jobs').where({ id }).first();

  /** Runs `embedChunks` and, before the first response of the embedding model, `meanwhile`. */
  async function embedWhile(of: IngestDocumentInput, meanwhile: () => Promise<unknown>): Promise<string> {
    const happened = Promise.withResolvers<void>();
    own.model.behaveEmbedding((response, body) => {
      own.model.behaveEmbedding(healthy);
      meanwhile()
        .then(() => healthy(response, body))
        .then(happened.resolve, happened.reject);
    });
    const code = await appErrorCode(ingestion.run('embedChunks', of));
    await happened.promise;
    return code;
  }

  it('leave nothing of a document when each activity runs twice, in turn or at the same time', async () => {
    const of = await ingested('in turn');
    const traces = await tracesOf(own, of.documentId);
    await markDeleted(of);
    const left: string[][] = [];
    for (const name of deletionSteps) {
      await remove(name, of);
      const once = await remainsOf(own, traces);
      await remove(name, of);
      expect(await remainsOf(own, traces), name).deep.equal(once);
      left.push(once);
    }
    expect(left.at(0)).include.members(['documents', 'chunks', 'chunkVectors', 'conversions', 'embeddings']);
    expect(left.at(-1)).deep.equal([]);
    expect(await jobOf(deletionWorkflowId(of.documentId))).include({ status: 'succeeded' });

    const other = await ingested('together');
    const tracesOfOther = await tracesOf(own, other.documentId);
    await markDeleted(other);
    for (const name of deletionSteps) await Promise.all([remove(name, other), remove(name, other)]);
    expect(await remainsOf(own, tracesOfOther)).deep.equal([]);
  });

  it('keep a document that is not marked as deleted, and close the job of an ingestion that never began', async () => {
    const of = await upload('waiting');
    await remove('forgetDocument', of);
    await own.ada.get(`/documents/${of.documentId}`, 200);
    await markDeleted(of);
    await remove('stopIngestion', of);
    expect(await jobOf(ingestWorkflowId(of.documentId, 1))).include({ status: 'cancelled' });
  });

  it('delete the vectors that a late ingestion step stores at any stage of the deletion', async () => {
    for (const count of [0, 2, 4, deletionSteps.length]) {
      const of = await ingestion.runAll(await upload(`late ${count}`), untilChunked);
      const code = await embedWhile(of, async () => {
        await markDeleted(of);
        for (const name of deletionSteps.slice(0, count)) await remove(name, of);
      });
      expect(code, `after ${count} steps`).equal('superseded');
      expect(await pointsOf(of), `after ${count} steps`).deep.equal([]);
    }
  });

  it('keep the vectors of the active generation when a late step of an older generation deletes its own vectors', async () => {
    const old = await ingested('older');
    const seen = await pointsOf(old);
    // The new name changes the texts of the chunks, so their embeddings are not cached.
    await own.db('documents').where({ id: old.documentId }).update({ name: 'renamed.txt' });
    const late = await ingestion.runAll(await ingestion.openNext(old), untilChunked);
    expect(await embedWhile(late, () => ingestion.openNext(late))).equal('superseded');
    expect(await pointsOf(old)).deep.equal(seen);
  });

  it('keep the vectors of the active generation when an ingestion step runs twice', async () => {
    const of = await ingestion.runAll(await upload('doubled'), untilChunked);
    const code = await embedWhile(of, async () => {
      // The other attempt ends first, its generation becomes active, and a newer one is requested.
      await ingestion.runAll(of, ['embedChunks', 'activateGeneration']);
      await ingestion.openNext(of);
    });
    expect(code).equal('superseded');
    expect(await pointsOf(of)).length((await own.db('chunks').where({ documentId: of.documentId })).length);
  });
});
