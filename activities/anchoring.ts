import { activityInfo } from '@temporalio/activity';
import type {
  ProposeAnchorWordsInput,
  ProposeAnchorWordsResult,
  RecordAnchoringEndInput,
  RecordAnchoringFailureInput,
} from '#src/contracts/alignment.ts';
import type { AnchoringService } from '#src/modules/anchor-words/anchoring.service.ts';
import { heartbeating } from './heartbeating.ts';

/** Some seconds: nobody waits for the words, and those without the chat model are good ones, too. */
const attemptsBeforeDegrading = 4;

export type AnchoringActivities = ReturnType<typeof createAnchoringActivities>;

/** The steps of `proposeAnchorWords`. Each may run twice, also at the same time, with the same result. */
export function createAnchoringActivities({ anchoring }: { anchoring: AnchoringService }) {
  return {
    proposeWords: (input: ProposeAnchorWordsInput): Promise<ProposeAnchorWordsResult> =>
      heartbeating(({ signal }) =>
        anchoring.propose(input, { mayDegrade: activityInfo().attempt > attemptsBeforeDegrading, signal }),
      ),

    recordAnchoring: (input: RecordAnchoringEndInput): Promise<void> =>
      heartbeating(() => anchoring.recordSuccess(input)),

    recordParkedAnchoring: (input: RecordAnchoringFailureInput): Promise<void> =>
      heartbeating(() => anchoring.recordParked(input)),

    recordResumedAnchoring: (input: ProposeAnchorWordsInput): Promise<void> =>
      heartbeating(() => anchoring.recordResumed(input)),

    recordAnchoringFailure: (input: RecordAnchoringFailureInput): Promise<void> =>
      heartbeating(() => anchoring.recordFailure(input)),

    recordAnchoringCancellation: (input: RecordAnchoringEndInput): Promise<void> =>
      heartbeating(() => anchoring.recordCancellation(input)),
  };
}
