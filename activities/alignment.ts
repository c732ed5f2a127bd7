import { activityInfo } from '@temporalio/activity';
import type {
  RecordAlignmentCancellationInput,
  RecordAlignmentFailureInput,
  ScoreAlignmentInput,
  ScoreRoundResult,
} from '#src/contracts/alignment.ts';
import type { AlignmentService } from '#src/modules/alignment/alignment.service.ts';
import { withHeartbeats } from './heartbeats.ts';

/**
 * After this many failed attempts (a few seconds) to use the embedding model, a round is scored by words alone: the
 * score is shown during the conversation, so an early approximation is worth more than a late exact score.
 */
const attemptsBeforeDegrading = 3;

export type AlignmentActivities = ReturnType<typeof createAlignmentActivities>;

export function createAlignmentActivities({ alignment }: { alignment: AlignmentService }) {
  return {
    scoreNextRound: (input: ScoreAlignmentInput): Promise<ScoreRoundResult> =>
      withHeartbeats(({ signal }) =>
        alignment.scoreNextRound(input, { mayDegrade: activityInfo().attempt > attemptsBeforeDegrading, signal }),
      ),

    nameChat: (input: ScoreAlignmentInput): Promise<void> =>
      withHeartbeats(({ signal }) => alignment.nameChat(input, signal)),

    recordAlignmentSuccess: (input: ScoreAlignmentInput): Promise<void> =>
      withHeartbeats(() => alignment.recordSuccess(input)),

    recordAlignmentFailure: ({ error, ...input }: RecordAlignmentFailureInput): Promise<void> =>
      withHeartbeats(() => alignment.recordFailure(input, error)),

    recordAlignmentCancellation: (input: RecordAlignmentCancellationInput): Promise<void> =>
      withHeartbeats(() => alignment.recordCancellation(input)),
  };
}
