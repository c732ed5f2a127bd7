import type { AlignmentActivities } from '#activities/alignment.ts';

type Name = keyof AlignmentActivities;

/**
 * Activities over a count of rounds that wait, and the names of those that were called, in order.
 * @param waiting rounds at the start; `arrive` adds one
 */
export function stubAlignment(
  waiting: number,
  replaced: Partial<AlignmentActivities> = {},
): { activities: AlignmentActivities; calls: Name[]; arrive: () => void } {
  const calls: Name[] = [];
  let left = waiting;
  let round = 0;
  const recorded =
    <Input, Result>(name: Name, work: (input: Input) => Promise<Result>) =>
    (input: Input): Promise<Result> => {
      calls.push(name);
      return work(input);
    };
  const all: AlignmentActivities = {
    scoreNextRound: async () => {
      if (left === 0) return { scored: false };
      left -= 1;
      round += 1;
      return { scored: true, round, state: 'stable', ewma: 100, isUntitled: !calls.includes('nameChat') };
    },
    nameChat: async () => undefined,
    recordAlignmentSuccess: async () => undefined,
    recordAlignmentFailure: async () => undefined,
    recordAlignmentCancellation: async () => undefined,
    ...replaced,
  };
  return {
    calls,
    arrive: () => {
      left += 1;
    },
    activities: {
      scoreNextRound: recorded('scoreNextRound', all.scoreNextRound),
      nameChat: recorded('nameChat', all.nameChat),
      recordAlignmentSuccess: recorded('recordAlignmentSuccess', all.recordAlignmentSuccess),
      recordAlignmentFailure: recorded('recordAlignmentFailure', all.recordAlignmentFailure),
      recordAlignmentCancellation: recorded('recordAlignmentCancellation', all.recordAlignmentCancellation),
    },
  };
}
