import type { EvaluationReport } from './report.ts';

export function reportTitle({ agent_name, version }: EvaluationReport): string {
  return `Evaluation of ${agent_name}, version ${version.number}: ${version.title}`;
}

/** By whom and how, one fact a line. */
export function judgedBy({ judged, parent, ci95 }: EvaluationReport): string[] {
  const { rubric, evaluator_model, generation_model, rubric_version, samples, finished_at } = judged;
  const facts: [string, string | null][] = [
    ['Judge', evaluator_model],
    ['Answers by', generation_model],
    ['Rubric', rubric && [rubric, rubric_version, samples && `${samples} a verdict`].filter(Boolean).join(', ')],
    ['Finished', finished_at],
    ['Beside', parent && `version ${parent.number}: ${parent.title}`],
    ['Mean of the replies, 95 %', ci95 && `${twoDecimals(ci95[0])} to ${twoDecimals(ci95[1])}`],
  ];
  const known = facts.flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}`]));
  return [...known, 'Scores are from 0 to 5.'];
}

/** What the cases that both versions have answered say. */
export function pairedSentence({ cases, mean_change, ci95, p_value }: NonNullable<EvaluationReport['paired']>): string {
  const interval = ci95 === null ? '' : `, with 95 % between ${signed(ci95[0])} and ${signed(ci95[1])}`;
  const count = cases === 1 ? 'one case' : `${cases} cases`;
  const verdict =
    p_value > 0.05 ? 'no significant change' : `a significant change for the ${mean_change > 0 ? 'better' : 'worse'}`;
  return `Over the ${count} that both versions have answered the mean changes by ${signed(mean_change)}${interval}: ${verdict} (sign test, p = ${p_value.toFixed(3)}).`;
}

export function twoDecimals(value: number): string {
  return value.toFixed(2);
}

export function signed(value: number): string {
  return `${value > 0 ? '+' : ''}${twoDecimals(value)}`.replace('-', '−');
}
