import { defineQuery, proxyActivities, setHandler } from '@temporalio/workflow';
import type { PreviewActivities } from '#activities/previews.ts';
import type { PreviewDocumentInput, PreviewDocumentResult, PreviewProgress } from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { attemptOfJob, endOfRun } from './failure.ts';
import { parking } from './parking.ts';
import { bulk, record } from './policies.ts';
import { showStage } from './visibility.ts';

// A renderer has its own limit of two minutes.
const { renderPreview, alignPages } = proxyActivities<PreviewActivities>(bulk);
const { recordPreview, recordParkedPreview, recordResumedPreview, recordPreviewFailure, recordPreviewCancellation } =
  proxyActivities<PreviewActivities>(record);

const stageQuery = defineQuery<PreviewProgress>(stageQueryName);

/** Shows an office document as it looks on paper, and tells its chunks on which page they are. */
export async function previewDocument(input: PreviewDocumentInput): Promise<PreviewDocumentResult> {
  let progress: PreviewProgress = { stage: 'queued' };
  setHandler(stageQuery, () => progress);
  const orPark = parking({
    parked: (error) => recordParkedPreview({ ...input, error }),
    resumed: () => recordResumedPreview(input),
  });

  async function makePreview(): Promise<number | null> {
    progress = { stage: 'render' };
    showStage('render', 'Printing the original as a PDF.');
    const rendered = await orPark(() => renderPreview(input));
    if (rendered === null) return null;
    progress = { stage: 'pages' };
    const origin = rendered.reused ? 'which was there already' : 'which is stored';
    showStage('pages', `Finding the pages of the PDF of ${rendered.sizeBytes} bytes, ${origin}, in the text.`);
    return (await orPark(() => alignPages(input)))?.pageCount ?? null;
  }

  try {
    const pageCount = await makePreview();
    await recordPreview({ ...input, ...attemptOfJob() });
    progress = { stage: 'done' };
    const outcome = pageCount === null ? 'the document is deleted, or has another original' : `${pageCount} pages`;
    showStage('done', `Done: ${outcome}.`);
    return { pageCount };
  } catch (error) {
    throw await endOfRun(error, {
      cancelled: () => recordPreviewCancellation({ ...input, ...attemptOfJob() }),
      failed: (failure) => recordPreviewFailure({ ...input, ...attemptOfJob(), error: failure }),
    });
  }
}
