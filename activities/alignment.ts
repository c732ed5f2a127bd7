import { activityInfo } from '@temporalio/activity';
import type {
  RecordAlignmentCancellationInput,
  RecordAlignmentFailureInput,
  ScoreAlignmentInput,
  ScoreRoundResult,
} from '#src/contracts/alignment.ts';
import type { AlignmentService } from '#src/modules/alignment/alignment.service.ts';
import { heartbeating } from './heartbeating.ts';

/**
 * With the embedder down a round waits for it through these attempts, some seconds in all, and is then scored by words
 * alone: the score is shown beside a conversation that goes on, so that a late exact one is worth less.
 */
const attemptsBeforeDegrading = 3;

export type AlignmentActivities = ReturnType<typeof createAlignmentActivities>;

/** The steps of `scoreAlignment`. Each may run twice, also at the same time, with the same result. */
export function createAlignmentActivities({ alignment }: { alignment: AlignmentService }) {
  return {
    scoreNextRound: (input: ScoreAlignmentInput): Promise<ScoreRoundResult> =>
      heartbeating(({ signal }) =>
        alignment.scoreNextRound(input, { mayDegrade: activityInfo().attempt > attemptsBeforeDegrading, signal }),
      ),

    nameChat: (input: ScoreAlignmentInput): Promise<void> =>
      heartbeating(({ signal }) => alignment.nameChat(input, signal)),

    recordAlignmentSuccess: (input: ScoreAlignmentInput): Promise<void> =>
      heartbeating(() => alignment.recordSuccess(input)),

    recordAlignmentFailure: ({ error, ...input }: RecordAlignmentFailureInput): Promise<void> =>
      heartbeating(() => alignment.recordFailure(input, error)),

    recordAlignmentCancellation: (input: RecordAlignmentCancellationInput): Promise<void> =>
      heartbeating(() => alignment.recordCancellation(input)),
  };
}
