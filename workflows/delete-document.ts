import { CancellationScope, defineQuery, proxyActivities, setHandler } from '@temporalio/workflow';
import type { DeletionActivities } from '#activities/deletion.ts';
import type { DeleteDocumentInput, DeletionProgress, DeletionStage } from '#src/contracts/deletion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { attemptOfJob, endOfRun } from './failure.ts';
import { parking } from './parking.ts';
import { bulk, quick, record } from './policies.ts';
import { showStage } from './visibility.ts';

// A run that is stopped may be in a parser, which ends within its own minute.
const { stopIngestion } = proxyActivities<DeletionActivities>(bulk);
const { deleteVectors, deleteChunks, deleteOriginal, forgetDocument } = proxyActivities<DeletionActivities>(quick);
const { recordDeletion, recordParkedDeletion, recordResumedDeletion, recordDeletionFailure } =
  proxyActivities<DeletionActivities>(record);

const stageQuery = defineQuery<DeletionProgress>(stageQueryName);

/** Leaves nothing of a document that nobody reads any more. What was begun is not given up: it cannot be cancelled. */
export async function deleteDocument(input: DeleteDocumentInput): Promise<void> {
  let progress: DeletionProgress = { stage: 'queued' };
  setHandler(stageQuery, () => progress);

  const orPark = parking({
    parked: (error) => recordParkedDeletion({ ...input, error }),
    resumed: () => recordResumedDeletion(input),
  });

  async function perform(
    stage: DeletionStage,
    details: string,
    step: (input: DeleteDocumentInput) => Promise<void>,
  ): Promise<void> {
    progress = { stage };
    showStage(stage, details);
    await orPark(() => step(input));
  }

  await CancellationScope.nonCancellable(async () => {
    try {
      await perform('stop', 'Stopping the ingestion of the document, and waiting until it has ended.', stopIngestion);
      await perform('vectors', 'Deleting its points in the vector store.', deleteVectors);
      await perform('chunks', 'Deleting its chunks, and the embeddings that only they needed.', deleteChunks);
      await perform('original', 'Deleting the stored file, and what it was converted to.', deleteOriginal);
      await perform('forget', 'Deleting its row and its links.', forgetDocument);
      await recordDeletion(input);
    } catch (error) {
      throw await endOfRun(error, {
        cancelled: () => Promise.resolve(),
        failed: (failure) => recordDeletionFailure({ ...input, ...attemptOfJob(), error: failure }),
      });
    }
  });
  progress = { stage: 'done' };
  showStage('done', 'Done: nothing of the document is left.');
}
