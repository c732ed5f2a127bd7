import { z } from 'zod';
import { maxScore, rubrics, severities } from '#src/domain/judging/rubric.ts';

const score = z.number().min(0).max(maxScore);
const words = z.string().catch('');
const known = z.string().nullable().catch(null);

const axisScore = z.object({
  axis: z.string(),
  label: words,
  score,
  rationale: words,
  weakness: words,
  severity: z.enum(severities).optional().catch(undefined),
  sd: z.number().optional().catch(undefined),
});

const scoredCase = z.object({
  input: z.string(),
  generated_response: words,
  has_reference: z.boolean().catch(false),
  response_scores: z.array(axisScore),
  response_average: score,
});

/**
 * What a report needs of the scores of a version. Those of our runs have all of it; whoever commits a version may send
 * scores of his own, as he got them from a preview.
 */
const reportedScores = z.object({
  prompt_scores: z.array(axisScore),
  prompt_average: score,
  cases: z.array(scoredCase).default([]),
  response_average: score.default(0),
  overall_average: score,
  ci95: z.tuple([z.number(), z.number()]).nullable().catch(null),
  rubric: z.enum(rubrics).nullable().catch(null),
  evaluator_model: known,
  generation_model: known,
  rubric_version: known,
  samples: z.number().nullable().catch(null),
  same_family: z.boolean().catch(false),
  length_confounded: z.boolean().catch(false),
  failed_units: z.array(z.object({ unit: z.string(), code: z.string() })).catch([]),
  finished_at: known,
});

export type ReportedScores = z.output<typeof reportedScores>;
export type ReportedAxis = z.output<typeof axisScore>;
export type ReportedCase = z.output<typeof scoredCase>;

/** Null for what are no scores of an evaluation. */
export function readScores(stored: unknown): ReportedScores | null {
  return reportedScores.safeParse(stored).data ?? null;
}
