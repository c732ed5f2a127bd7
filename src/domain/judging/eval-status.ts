export const evalStatuses = ['queued', 'running', 'completed', 'partial', 'failed', 'canceled'] as const;
/** How far the evaluation of a version is; null before the first. */
export type EvalStatus = (typeof evalStatuses)[number];

const ended = ['completed', 'partial', 'failed', 'canceled'] as const;

/** What may follow what. An evaluation that has ended may be started again. */
const followers: Readonly<Record<EvalStatus | 'none', readonly EvalStatus[]>> = {
  none: ['queued'],
  queued: ['running', 'failed', 'canceled'],
  running: ended,
  completed: ['queued'],
  partial: ['queued'],
  failed: ['queued'],
  canceled: ['queued'],
};

export function mayFollow(before: EvalStatus | null, next: EvalStatus): boolean {
  return followers[before ?? 'none'].includes(next);
}

/** The statuses after which `next` may come; null stands for a version that was never evaluated. */
export function precedersOf(next: EvalStatus): (EvalStatus | null)[] {
  return [null, ...evalStatuses].filter((before) => mayFollow(before, next));
}

/**
 * How a run ends whose units have all ended: with all of them, with enough to say something, or not.
 * @param run.judgedAxes of the prompt; null where the prompt was not to be judged
 */
export function endOf(run: {
  failedUnits: number;
  judgedAxes: number | null;
  cases: number;
  judgedCases: number;
}): 'completed' | 'partial' | 'failed' {
  if (run.failedUnits === 0) return 'completed';
  const isEnough = run.judgedAxes !== 0 && run.judgedCases * 2 >= run.cases;
  return isEnough ? 'partial' : 'failed';
}
