import type { Knex } from 'knex';
import type { ListPosition } from '#src/contracts/request-data.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import { renderComparisonReportFile } from './comparison-report.ts';
import { type ComparisonFilters, createComparisonsRepository } from './comparisons.repository.ts';
import { type ComparisonDetailRow, type ComparisonRow, isCompleteEvaluationRun } from './evaluations.model.ts';
import type { VersionComparison } from './evaluations.service.ts';
import { type EvaluationReportFile, parseReportFormat } from './report-markup.ts';

/** A comparison without all verdicts is `failed`: its summary would be thinned. */
export type ComparisonStatus = 'queued' | 'running' | 'completed' | 'failed' | 'canceled';

export type Comparison = ComparisonRow & { status: ComparisonStatus };
export type ComparisonWithResult = Comparison & { result: VersionComparison | null };

export type ComparisonsService = ReturnType<typeof createComparisonsService>;

/** Shows comparisons that were made before, to all readers of their draft. */
export function createComparisonsService({ db }: { db: Knex }) {
  const comparisons = createComparisonsRepository(db);

  async function find(actor: Actor, id: string): Promise<ComparisonDetailRow> {
    const found = await comparisons.find(actor, id);
    if (found === undefined) throw appError('comparison_not_found');
    return found;
  }

  return {
    async list(
      actor: Actor,
      filters: ComparisonFilters,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: Comparison[]; last: ListPosition | null }> {
      const { items, last } = await comparisons.list(actor, filters, page);
      return { items: items.map((row) => ({ ...row, status: statusOf(row) })), last };
    },

    async get(actor: Actor, id: string): Promise<ComparisonWithResult> {
      const row = await find(actor, id);
      return { ...row, status: statusOf(row), result: resultOf(row) };
    },

    /** Throws `evaluation_not_found` for a comparison without result, and `unsupported_report_format`. */
    async report(actor: Actor, id: string, requestedFormat: string): Promise<EvaluationReportFile> {
      const format = parseReportFormat(requestedFormat);
      if (format === undefined) throw appError('unsupported_report_format');
      const row = await find(actor, id);
      const result = resultOf(row);
      if (result === null || row.finishedAt === null) throw appError('evaluation_not_found');
      const { agentName, finishedAt } = row;
      const version = { number: row.versionNumber, title: row.versionTitle };
      const baseline = { number: row.baselineVersionNumber, title: row.baselineVersionTitle };
      return renderComparisonReportFile({ agentName, version, baseline, finishedAt, ...result }, format);
    },
  };
}

function statusOf(row: ComparisonRow): ComparisonStatus {
  if (isCompleteEvaluationRun(row)) return 'completed';
  switch (row.jobStatus) {
    case 'queued':
      return 'queued';
    case 'running':
    case 'parked':
      return 'running';
    case 'cancelled':
      return 'canceled';
    default:
      return 'failed';
  }
}

function resultOf(row: ComparisonDetailRow): VersionComparison | null {
  const { specification, results } = row;
  if (!isCompleteEvaluationRun(row) || specification.kind !== 'compare' || results?.kind !== 'compare') return null;
  return { specification, results };
}
