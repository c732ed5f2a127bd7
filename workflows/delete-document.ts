import { CancellationScope, defineQuery, proxyActivities, setHandler } from '@temporalio/workflow';
import type { DeletionActivities } from '#activities/deletion.ts';
import type { DeleteDocumentInput, DeletionProgress, DeletionStage } from '#src/contracts/deletion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { readJobAttemptOfRun, recordUnsuccessfulRunEnd } from './failure.ts';
import { createParkableStepRunner } from './parking.ts';
import { jobUpdatePolicy, quickActivityPolicy, slowActivityPolicy } from './policies.ts';
import { showRunStage } from './visibility.ts';

// Stopping an ingestion needs a long timeout, because its parser may run for another minute.
const { stopIngestion } = proxyActivities<DeletionActivities>(slowActivityPolicy);
const { deleteVectors, deleteChunks, deleteOriginal, forgetDocument } =
  proxyActivities<DeletionActivities>(quickActivityPolicy);
const { recordDeletion, recordParkedDeletion, recordResumedDeletion, recordDeletionFailure } =
  proxyActivities<DeletionActivities>(jobUpdatePolicy);

const stageQuery = defineQuery<DeletionProgress>(stageQueryName);

export async function deleteDocument(input: DeleteDocumentInput): Promise<void> {
  let progress: DeletionProgress = { stage: 'queued' };
  setHandler(stageQuery, () => progress);

  const orPark = createParkableStepRunner({
    parked: (error) => recordParkedDeletion({ ...input, error }),
    resumed: () => recordResumedDeletion(input),
  });

  async function perform(
    stage: DeletionStage,
    details: string,
    step: (input: DeleteDocumentInput) => Promise<void>,
  ): Promise<void> {
    progress = { stage };
    showRunStage(stage, details);
    await orPark(() => step(input));
  }

  await CancellationScope.nonCancellable(async () => {
    try {
      await perform('stop', 'Cancelling the ingestion of the document and waiting for its end.', stopIngestion);
      await perform('vectors', 'Deleting the vectors of the document.', deleteVectors);
      await perform(
        'chunks',
        'Deleting the chunks of the document, and embeddings that no other chunk uses.',
        deleteChunks,
      );
      await perform(
        'original',
        'Deleting the original and its conversions, unless another document uses them.',
        deleteOriginal,
      );
      await perform('forget', 'Deleting the row of the document and its folder links.', forgetDocument);
      await recordDeletion(input);
    } catch (error) {
      throw await recordUnsuccessfulRunEnd(error, {
        cancelled: () => Promise.resolve(),
        failed: (failure) => recordDeletionFailure({ ...input, ...readJobAttemptOfRun(), error: failure }),
      });
    }
  });
  progress = { stage: 'done' };
  showRunStage('done', 'Done: all data of the document is deleted.');
}
