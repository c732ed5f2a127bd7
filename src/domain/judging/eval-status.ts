export const evalStatuses = ['queued', 'running', 'completed', 'partial', 'failed', 'canceled'] as const;
/**
 * How far the evaluation of a version is; null before the first. From `queued` over `running` to one of the others, and
 * at once to `completed` where everything is known; each of those may be followed by `queued`.
 */
export type EvalStatus = (typeof evalStatuses)[number];

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
