import { activityInfo } from '@temporalio/activity';
import type {
  ProposeAnchorWordsInput,
  ProposeAnchorWordsResult,
  RecordAnchorWordsEndInput,
  RecordAnchorWordsFailureInput,
} from '#src/contracts/alignment.ts';
import type { AnchorWordCandidatesService } from '#src/modules/anchor-words/anchoring.service.ts';
import { withHeartbeats } from './heartbeats.ts';

/** Failed calls of the chat model (a few seconds) after which anchor words are proposed without it. */
const attemptsBeforeDegrading = 4;

export type AnchorWordActivities = ReturnType<typeof createAnchorWordActivities>;

export function createAnchorWordActivities({ anchoring }: { anchoring: AnchorWordCandidatesService }) {
  return {
    proposeWords: (input: ProposeAnchorWordsInput): Promise<ProposeAnchorWordsResult> =>
      withHeartbeats(({ signal }) =>
        anchoring.propose(input, { mayDegrade: activityInfo().attempt > attemptsBeforeDegrading, signal }),
      ),

    recordAnchoring: (input: RecordAnchorWordsEndInput): Promise<void> =>
      withHeartbeats(() => anchoring.recordSuccess(input)),

    recordParkedAnchoring: (input: RecordAnchorWordsFailureInput): Promise<void> =>
      withHeartbeats(() => anchoring.recordParked(input)),

    recordResumedAnchoring: (input: ProposeAnchorWordsInput): Promise<void> =>
      withHeartbeats(() => anchoring.recordResumed(input)),

    recordAnchoringFailure: (input: RecordAnchorWordsFailureInput): Promise<void> =>
      withHeartbeats(() => anchoring.recordFailure(input)),

    recordAnchoringCancellation: (input: RecordAnchorWordsEndInput): Promise<void> =>
      withHeartbeats(() => anchoring.recordCancellation(input)),
  };
}
