import { activityInfo } from '@temporalio/activity';
import type {
  ProposeAnchorWordsInput,
  ProposeAnchorWordsResult,
  RecordAnchoringEndInput,
  RecordAnchoringFailureInput,
} from '#src/contracts/alignment.ts';
import type { AnchoringService } from '#src/modules/anchor-words/anchoring.service.ts';
import { withHeartbeats } from './heartbeats.ts';

/**
 * After this many failed attempts (a few seconds) to use the chat model, anchor words are proposed without it; their
 * quality is good as well.
 */
const attemptsBeforeDegrading = 4;

export type AnchoringActivities = ReturnType<typeof createAnchoringActivities>;

export function createAnchoringActivities({ anchoring }: { anchoring: AnchoringService }) {
  return {
    proposeWords: (input: ProposeAnchorWordsInput): Promise<ProposeAnchorWordsResult> =>
      withHeartbeats(({ signal }) =>
        anchoring.propose(input, { mayDegrade: activityInfo().attempt > attemptsBeforeDegrading, signal }),
      ),

    recordAnchoring: (input: RecordAnchoringEndInput): Promise<void> =>
      withHeartbeats(() => anchoring.recordSuccess(input)),

    recordParkedAnchoring: (input: RecordAnchoringFailureInput): Promise<void> =>
      withHeartbeats(() => anchoring.recordParked(input)),

    recordResumedAnchoring: (input: ProposeAnchorWordsInput): Promise<void> =>
      withHeartbeats(() => anchoring.recordResumed(input)),

    recordAnchoringFailure: (input: RecordAnchoringFailureInput): Promise<void> =>
      withHeartbeats(() => anchoring.recordFailure(input)),

    recordAnchoringCancellation: (input: RecordAnchoringEndInput): Promise<void> =>
      withHeartbeats(() => anchoring.recordCancellation(input)),
  };
}
