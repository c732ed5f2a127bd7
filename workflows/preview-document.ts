import { defineQuery, proxyActivities, setHandler } from '@temporalio/workflow';
import type { PreviewActivities } from '#activities/previews.ts';
import type { PreviewDocumentInput, PreviewDocumentResult, PreviewProgress } from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { readJobAttemptOfRun, recordUnsuccessfulRunEnd } from './failure.ts';
import { createParkableStepRunner } from './parking.ts';
import { jobUpdatePolicy, slowActivityPolicy } from './policies.ts';
import { showRunStage } from './visibility.ts';

// Rendering needs no shorter timeout than other slow activities: the renderer stops itself after two minutes.
const { renderPreview, alignPages } = proxyActivities<PreviewActivities>(slowActivityPolicy);
const { recordPreview, recordParkedPreview, recordResumedPreview, recordPreviewFailure, recordPreviewCancellation } =
  proxyActivities<PreviewActivities>(jobUpdatePolicy);

const stageQuery = defineQuery<PreviewProgress>(stageQueryName);

export async function previewDocument(input: PreviewDocumentInput): Promise<PreviewDocumentResult> {
  let progress: PreviewProgress = { stage: 'queued' };
  setHandler(stageQuery, () => progress);
  const orPark = createParkableStepRunner({
    parked: (error) => recordParkedPreview({ ...input, error }),
    resumed: () => recordResumedPreview(input),
  });

  async function makePreview(): Promise<number | null> {
    progress = { stage: 'render' };
    showRunStage('render', 'Rendering the original as PDF.');
    const rendered = await orPark(() => renderPreview(input));
    if (rendered === null) return null;
    progress = { stage: 'pages' };
    const origin = rendered.reused ? 'already stored' : 'newly stored';
    showRunStage('pages', `Finding page starts in the text. The PDF has ${rendered.sizeBytes} bytes (${origin}).`);
    return (await orPark(() => alignPages(input)))?.pageCount ?? null;
  }

  try {
    const pageCount = await makePreview();
    await recordPreview({ ...input, ...readJobAttemptOfRun() });
    progress = { stage: 'done' };
    const outcome = pageCount === null ? 'the document was deleted or replaced' : `${pageCount} pages`;
    showRunStage('done', `Done: ${outcome}.`);
    return { pageCount };
  } catch (error) {
    throw await recordUnsuccessfulRunEnd(error, {
      cancelled: () => recordPreviewCancellation({ ...input, ...readJobAttemptOfRun() }),
      failed: (failure) => recordPreviewFailure({ ...input, ...readJobAttemptOfRun(), error: failure }),
    });
  }
}
