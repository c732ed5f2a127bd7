/**
 * Version of prompts, axes and scoring rules. Change it together with any of them: cached verdicts then no longer count, open
 * runs end with `eval_incomplete`, and the next request starts another run. The number of axes and samples determines the
 * steps of workflows (`units.ts`): changing it needs `patched` for the histories of open runs.
 */
export const rubricVersion = 'r1';

export const rubrics = ['plain', 'anchored'] as const;
/**
 * `plain`: all axes of a text in one call, with definitions only. `anchored`: one axis per call, with a description of every
 * score, a mandatory weakness, and a reserved top score.
 */
export type Rubric = (typeof rubrics)[number];

export const maxScore = 5;
export const maxCases = 20;

/** First versions use the plain rubric by default, later versions the anchored one. */
export function rubricFor(version: { hasParent: boolean; requested?: Rubric | undefined }): Rubric {
  return version.requested ?? (version.hasParent ? 'anchored' : 'plain');
}

/**
 * Samples per axis and their temperature. Judges contradict themselves between calls, the more the finer the question: the mean
 * of three samples is more reliable.
 */
export const sampling: Readonly<Record<Rubric | 'pairwise', { samples: number; temperature: number }>> = {
  plain: { samples: 1, temperature: 0 },
  anchored: { samples: 3, temperature: 0.3 },
  pairwise: { samples: 1, temperature: 0 },
};

export const severities = ['none', 'cosmetic', 'structural', 'fundamental'] as const;
/** Severity of the weakness that a judge names. */
export type Severity = (typeof severities)[number];

/** Highest score of a text with a weakness of this severity. */
const maxScoreBySeverity: Readonly<Record<Severity, number>> = { none: 5, cosmetic: 4, structural: 3, fundamental: 1 };

/** Phrases by which a judge says that there is no weakness. */
const findsNothing = /\b(?:nothing|none)\b|\bno (?:\w+ )?(?:weakness|flaw|gap|addition|improvement|change)/i;

/**
 * Applies the scoring rules to a verdict: the severity of the weakness caps the score, and the top score needs a judge who says
 * that there is nothing to add.
 */
export function allowedScore(verdict: { score: number; severity: Severity; weakness: string }): number {
  const capped = Math.min(verdict.score, maxScoreBySeverity[verdict.severity]);
  return capped === maxScore && !findsNothing.test(verdict.weakness) ? maxScore - 1 : capped;
}
