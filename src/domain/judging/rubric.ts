/**
 * Of prompts, axes and the rules of scoring: whoever changes one of them changes it, too, and no cached verdict counts.
 * Runs that are open then end as `eval_incomplete`, and the next request begins another. Workflows follow from axes and
 * samples (`units.ts`): where their number changes, `patched` has to let the histories of open runs go on.
 */
export const rubricVersion = 'r1';

export const rubrics = ['plain', 'anchored'] as const;
/**
 * `plain`: definitions alone, all axes of a text in one call. `anchored`: one axis a call, a description of every score,
 * a weakness that has to be named, and a top score that is reserved.
 */
export type Rubric = (typeof rubrics)[number];

export const maxScore = 5;
export const maxCases = 20;

/** A first version is looked at as a whole; one that follows another is held against every description. */
export function rubricFor(version: { hasParent: boolean; requested?: Rubric | undefined }): Rubric {
  return version.requested ?? (version.hasParent ? 'anchored' : 'plain');
}

/**
 * How often a text is judged on an axis, and how warm. Judges contradict themselves from call to call, the more the
 * finer they are asked: the mean of three says more than one.
 */
export const sampling: Readonly<Record<Rubric | 'pairwise', { samples: number; temperature: number }>> = {
  plain: { samples: 1, temperature: 0 },
  anchored: { samples: 3, temperature: 0.3 },
  pairwise: { samples: 1, temperature: 0 },
};

export const severities = ['none', 'cosmetic', 'structural', 'fundamental'] as const;
/** Of the weakness that a judge names. */
export type Severity = (typeof severities)[number];

/** The highest score that a text with such a weakness may have. */
const highestScore: Readonly<Record<Severity, number>> = { none: 5, cosmetic: 4, structural: 3, fundamental: 1 };

/** A judge that has looked for something to add says that it found nothing. */
const findsNothing = /\b(?:nothing|none)\b|\bno (?:\w+ )?(?:weakness|flaw|gap|addition|improvement|change)/i;

/**
 * The score that a verdict earns, whatever its judge believes: a weakness caps it, and the top is for texts without one,
 * whose judge also says that a stronger version would add nothing.
 */
export function allowedScore(verdict: { score: number; severity: Severity; weakness: string }): number {
  const capped = Math.min(verdict.score, highestScore[verdict.severity]);
  return capped === maxScore && !findsNothing.test(verdict.weakness) ? maxScore - 1 : capped;
}
