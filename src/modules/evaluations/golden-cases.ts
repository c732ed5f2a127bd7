import type { GoldenTestCase } from '#src/domain/agents/drafts.ts';
import type { TestCaseText } from '#src/domain/judging/judgement.ts';
import { maxTestCases } from '#src/domain/judging/rubric.ts';
import { appError } from '#src/errors.ts';

export type GoldenCaseSelection = {
  /** True to run golden cases. Default: true if `goldenCaseIds` is given, otherwise false. */
  runGolden?: boolean | undefined;
  goldenCaseIds?: string[] | undefined;
};

/**
 * Selects the golden cases of a run. Throws `unknown_golden_case`, and `validation_failed` if they and the other cases of
 * the request are too many for one run.
 */
export function selectGoldenCases(
  golden: readonly GoldenTestCase[],
  { goldenCaseIds, runGolden = goldenCaseIds !== undefined }: GoldenCaseSelection,
  otherCases = 0,
): TestCaseText[] {
  const unknown = (goldenCaseIds ?? []).filter((id) => !golden.some((each) => each.id === id));
  if (unknown.length > 0) {
    const message = `The version has no golden case ${unknown.slice(0, 10).join(', ')}.`;
    throw appError('unknown_golden_case', {
      detail: message,
      errors: [{ path: 'golden_case_ids', message, code: 'unknown_golden_case' }],
    });
  }
  if (!runGolden) return [];
  const chosen = golden.filter(({ id }) => goldenCaseIds?.includes(id) ?? true);
  if (chosen.length + otherCases > maxTestCases) {
    const message = `An evaluation takes ${maxTestCases} cases at most, and these are ${chosen.length + otherCases}: choose some.`;
    throw appError('validation_failed', {
      detail: message,
      errors: [{ path: 'golden_case_ids', message, code: 'too_big' }],
    });
  }
  return chosen.map(({ id, prompt, referenceAnswer }) => ({ id, input: prompt, expected: referenceAnswer || null }));
}
