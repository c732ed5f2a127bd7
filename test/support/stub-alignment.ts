import type { AlignmentActivities } from '#activities/alignment.ts';
import type { ScoreRoundResult } from '#src/contracts/alignment.ts';
import { recordCalls } from './stub-calls.ts';

/**
 * Stub activities for a number of unscored rounds. Records the names of called activities in order.
 * @param waiting number of unscored rounds at the start; `arrive` adds one
 */
export function stubAlignment(waiting: number, replaced: Partial<AlignmentActivities> = {}) {
  let left = waiting;
  let round = 0;
  const { activities, names, untilCalled } = recordCalls<AlignmentActivities>({
    scoreNextRound: async (): Promise<ScoreRoundResult> => {
      if (left === 0) return { scored: false };
      left -= 1;
      round += 1;
      return { scored: true, round, state: 'stable', ewma: 100, isUntitled: !names.includes('nameChat') };
    },
    nameChat: async () => undefined,
    recordAlignmentSuccess: async () => undefined,
    recordAlignmentFailure: async () => undefined,
    recordAlignmentCancellation: async () => undefined,
    ...replaced,
  });
  const arrive = () => {
    left += 1;
  };
  return { activities, calls: names, untilCalled, arrive };
}
