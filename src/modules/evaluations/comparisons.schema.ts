import { z } from 'zod';
import { uuidField } from '#src/http/request/fields.ts';
import type { Comparison, ComparisonWithResult } from './comparisons.service.ts';
import { comparisonResultSchema, toComparisonResultDto } from './evaluations.schema.ts';

export const comparisonFiltersQuery = {
  draft_id: uuidField.optional(),
  version_id: uuidField.optional().describe('The compared version, not the baseline.'),
};

const winsSchema = comparisonResultSchema.shape.summary;

const comparisonSchema = z
  .strictObject({
    id: z.string().describe('Also the id of its job.'),
    draft_id: uuidField,
    version_id: uuidField,
    baseline_version_id: uuidField,
    agent_name: z.string(),
    version_title: z.string(),
    baseline_version_title: z.string(),
    evaluator_model: z.string(),
    case_count: z.int(),
    with_documents: z.boolean(),
    status: z.enum(['queued', 'running', 'completed', 'failed', 'canceled']).meta({ id: 'ComparisonStatus' }),
    summary: winsSchema.nullable().describe('Null until it is completed.'),
    created_at: z.iso.datetime(),
    finished_at: z.iso.datetime().nullable(),
  })
  .meta({ id: 'Comparison' });

export const comparisonListSchema = z.strictObject({
  items: z.array(comparisonSchema),
  next_cursor: z.string().nullable(),
});

export const comparisonWithResultSchema = z
  .strictObject({
    ...comparisonSchema.shape,
    result: comparisonResultSchema.nullable().describe('Null until it is completed.'),
  })
  .meta({ id: 'ComparisonWithResult' });

export function toComparisonDto(comparison: Comparison): z.infer<typeof comparisonSchema> {
  const { summary, status } = comparison;
  return {
    id: comparison.id,
    draft_id: comparison.draftId,
    version_id: comparison.versionId,
    baseline_version_id: comparison.baselineVersionId,
    agent_name: comparison.agentName,
    version_title: comparison.versionTitle,
    baseline_version_title: comparison.baselineVersionTitle,
    evaluator_model: comparison.evaluatorModel,
    case_count: comparison.cases,
    with_documents: comparison.withDocuments,
    status,
    summary:
      status !== 'completed' || summary === null
        ? null
        : { version_wins: summary.versionWins, baseline_wins: summary.baselineWins, ties: summary.ties },
    created_at: comparison.createdAt.toISOString(),
    finished_at: comparison.finishedAt?.toISOString() ?? null,
  };
}

export function toComparisonWithResultDto(
  comparison: ComparisonWithResult,
): z.infer<typeof comparisonWithResultSchema> {
  const { result } = comparison;
  return { ...toComparisonDto(comparison), result: result && toComparisonResultDto(result) };
}
