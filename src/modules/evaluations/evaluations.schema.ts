import { z } from 'zod';
import type { TestCaseText } from '#src/domain/judging/judgement.ts';
import type { AxisScore, TestCaseResult } from '#src/domain/judging/outcome.ts';
import { hasReferenceAnswer, maxTestCases, weaknessSeverities } from '#src/domain/judging/rubric.ts';
import { oneLineField, tagField, uuidField } from '#src/http/request/fields.ts';
import { rubricField } from '#src/http/shared-schemas.ts';
import type { EvaluationRunWithResults, VersionComparison } from './evaluations.service.ts';

/** Maximum length of each text of a golden case: the context windows of models and judges are limited. */
const maxCaseCharacters = 200_000;

const evaluationCase = z.strictObject({
  input: z.string().min(1).max(maxCaseCharacters),
  expected: z
    .string()
    .max(maxCaseCharacters)
    .nullable()
    .optional()
    .describe('A reference: with it, accuracy is judged, too.'),
});

const judging = {
  rubric: rubricField.optional().describe('`plain` for a first version and `anchored` for others when not given.'),
  evaluator_model: oneLineField(200).min(1).optional(),
};
const ofVersion = { draft_id: uuidField, version_id: uuidField };
const cases = z.array(evaluationCase).max(maxTestCases).default([]);

const replies = {
  with_documents: z
    .boolean()
    .default(false)
    .describe(
      'Answer from the documents that you may read, as the published agent does; by the prompt alone otherwise.',
    ),
};

export const evaluateVersionBody = z.strictObject({ ...ofVersion, ...judging, ...replies, cases });
export const evaluatePromptBody = z.strictObject({ ...ofVersion, ...judging });
export const evaluatePromptAdhocBody = z.strictObject({
  agent_prompt: z.string().min(1).max(100_000),
  agent_name: oneLineField(255).default(''),
  tags: z.array(tagField).max(50).default([]),
  ...judging,
});
export const evaluateCaseBody = z.strictObject({ ...ofVersion, ...judging, ...replies, case: evaluationCase });
export const compareVersionsBody = z.strictObject({
  ...ofVersion,
  baseline_version_id: uuidField.optional().describe('The parent when not given.'),
  evaluator_model: judging.evaluator_model,
  ...replies,
  cases,
  run_golden: z
    .boolean()
    .optional()
    .describe('Run the golden cases of the version, too; false when not given, unless some are named.'),
  golden_case_ids: z.array(oneLineField(100).min(1)).max(100).optional().describe('Those to run; all when not given.'),
});

/** Turns a blank reference answer into null, so that a blank and a missing one lead to the same evaluation run. */
export function toTestCaseText({ input, expected }: z.output<typeof evaluationCase>): TestCaseText {
  return { input, expected: hasReferenceAnswer(expected) ? expected : null };
}

const score = z.number().min(0).max(5);
const axisScoreSchema = z
  .strictObject({
    axis: z.string(),
    label: z.string(),
    score,
    rationale: z.string(),
    weakness: z.string(),
    severity: z.enum(weaknessSeverities).optional().describe('With the anchored rubric.'),
    sd: z.number().optional().describe('Standard deviation of the samples, with the anchored rubric.'),
  })
  .meta({ id: 'AxisScore' });

export const caseResultSchema = z
  .strictObject({
    input: z.string(),
    generated_response: z.string(),
    has_reference: z.boolean(),
    response_scores: z.array(axisScoreSchema),
    response_average: score,
  })
  .meta({ id: 'CaseResult' });

export const evaluationResultSchema = z
  .strictObject({
    agent_id: uuidField.nullable().describe("The draft's id; null for a prompt without one."),
    generation_model: z.string(),
    evaluator_model: z.string(),
    rubric: rubricField,
    prompt_scores: z.array(axisScoreSchema),
    prompt_average: score,
    cases: z.array(caseResultSchema),
    response_average: score,
    overall_average: score,
  })
  .meta({ id: 'EvaluationResult' });

export const comparisonResultSchema = z
  .strictObject({
    version_id: uuidField,
    baseline_version_id: uuidField,
    evaluator_model: z.string(),
    version_generation_model: z.string(),
    baseline_generation_model: z.string(),
    with_documents: z.boolean(),
    version_prompt_scores: z.array(axisScoreSchema),
    baseline_prompt_scores: z.array(axisScoreSchema),
    version_prompt_average: score,
    baseline_prompt_average: score,
    cases: z.array(
      z.strictObject({
        id: z.string().nullable().describe('Of a golden case; null for another one.'),
        input: z.string(),
        reference_answer: z.string(),
        version_response: z.string(),
        baseline_response: z.string(),
        comparisons: z.array(
          z.strictObject({
            axis: z.string(),
            label: z.string(),
            winner: z.enum(['version', 'baseline', 'tie']),
            rationale: z.string(),
          }),
        ),
      }),
    ),
    summary: z.strictObject({ version_wins: z.int(), baseline_wins: z.int(), ties: z.int() }),
    statistics: z
      .strictObject({
        p_value: z.number().describe('Of the sign test over the cases that were decided.'),
        flip_rate: z.number().describe('The share of verdicts that changed with the order.'),
        length_ratio: z.number().nullable(),
        length_confounded: z.boolean().describe('Length alone could explain who wins.'),
        conclusion: z.string(),
      })
      .describe('What may be concluded.'),
  })
  .meta({ id: 'ComparisonResult' });

function toAxisScoreDto({ axis, label, score, rationale, weakness, severity, sd }: AxisScore) {
  return {
    ...{ axis, label, score, rationale, weakness },
    ...(severity !== undefined && { severity }),
    ...(sd !== undefined && { sd }),
  };
}

export function toCaseResultDto(result: TestCaseResult): z.infer<typeof caseResultSchema> {
  return {
    input: result.input,
    generated_response: result.generatedResponse,
    has_reference: result.hasReference,
    response_scores: result.responseScores.map(toAxisScoreDto),
    response_average: result.responseAverage,
  };
}

export function toEvaluationResultDto({
  run,
  results,
}: EvaluationRunWithResults): z.infer<typeof evaluationResultSchema> {
  const { specification } = run;
  return {
    agent_id: run.draftId,
    generation_model: specification.generationModel,
    evaluator_model: specification.evaluatorModel,
    rubric: specification.kind === 'evaluate' ? specification.rubric : 'plain',
    prompt_scores: results.promptScores.map(toAxisScoreDto),
    prompt_average: results.promptAverage,
    cases: results.cases.map(toCaseResultDto),
    response_average: results.responseAverage,
    overall_average: results.overallAverage,
  };
}

export function toComparisonResultDto({
  specification,
  results,
}: VersionComparison): z.infer<typeof comparisonResultSchema> {
  const { summary, statistics } = results;
  return {
    version_id: specification.subject.versionId,
    baseline_version_id: specification.baselineVersionId,
    evaluator_model: specification.evaluatorModel,
    version_generation_model: specification.generationModel,
    baseline_generation_model: specification.baselineGenerationModel,
    with_documents: specification.documents !== undefined,
    version_prompt_scores: results.versionPromptScores.map(toAxisScoreDto),
    baseline_prompt_scores: results.baselinePromptScores.map(toAxisScoreDto),
    version_prompt_average: results.versionPromptAverage,
    baseline_prompt_average: results.baselinePromptAverage,
    // A complete run has a result for each case of its specification, in the same order.
    cases: results.cases.map(({ input, versionResponse, baselineResponse, comparisons }, index) => ({
      id: specification.cases[index]?.id ?? null,
      input,
      reference_answer: specification.cases[index]?.expected ?? '',
      version_response: versionResponse,
      baseline_response: baselineResponse,
      comparisons: comparisons.map(({ axis, label, winner, rationale }) => ({ axis, label, winner, rationale })),
    })),
    summary: { version_wins: summary.versionWins, baseline_wins: summary.baselineWins, ties: summary.ties },
    statistics: {
      p_value: statistics.pValue,
      flip_rate: statistics.flipRate,
      length_ratio: statistics.lengthRatio,
      length_confounded: statistics.lengthConfounded,
      conclusion: statistics.conclusion,
    },
  };
}
