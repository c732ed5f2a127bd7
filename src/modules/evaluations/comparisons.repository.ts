import type { Knex } from 'knex';
import { listSortKeySql, orderNewestFirst, toListPage } from '#src/adapters/postgres/keyset.ts';
import { whereReadableByActor } from '#src/adapters/postgres/readable.ts';
import { queryFirstRow, queryRows } from '#src/adapters/postgres/shapes.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import {
  type ComparisonDetailRow,
  type ComparisonRow,
  comparisonDetailRowShape,
  comparisonRowShape,
} from './evaluations.model.ts';

export type ComparisonFilters = { draftId?: string | undefined; versionId?: string | undefined };

export function createComparisonsRepository(db: Knex) {
  /** Comparisons of drafts that the actor may read. */
  const readable = (actor: Actor) => {
    const comparisons = db('evaluationRuns as r')
      .join('drafts as d', { 'd.orgId': 'r.orgId', 'd.id': 'r.draftId' })
      .join('draftVersions as v', { 'v.orgId': 'r.orgId', 'v.id': 'r.versionId' })
      .join('draftVersions as b', { 'b.orgId': 'r.orgId', 'b.id': 'r.baselineVersionId' })
      .leftJoin('jobs as j', { 'j.id': 'r.id' })
      .whereNotNull('r.baselineVersionId')
      .where({ 'r.orgId': actor.orgId })
      .select(
        ...['r.id', 'r.draftId', 'r.versionId', 'r.baselineVersionId', 'r.failedUnits', 'r.createdAt', 'r.finishedAt'],
        ...['v.agentName', 'v.versionNumber', 'v.title as versionTitle'],
        ...['b.versionNumber as baselineVersionNumber', 'b.title as baselineVersionTitle', 'j.status as jobStatus'],
        db.raw(`r.specification ->> 'evaluatorModel' as evaluator_model`),
        db.raw(`jsonb_array_length(r.specification -> 'cases') as cases`),
        db.raw(`r.specification -> 'documents' is not null as with_documents`),
        db.raw(`r.results -> 'summary' as summary`),
      );
    return whereReadableByActor(comparisons, actor, 'd');
  };

  return {
    async list(
      actor: Actor,
      { draftId, versionId }: ComparisonFilters,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: ComparisonRow[]; last: ListPosition | null }> {
      const query = readable(actor);
      if (draftId !== undefined) query.where({ 'r.draftId': draftId });
      if (versionId !== undefined) query.where({ 'r.versionId': versionId });
      const listed = orderNewestFirst(query, { ...page, time: 'r.createdAt', id: 'r.id' });
      return toListPage(await queryRows(db, comparisonRowShape, listed), page.limit);
    },

    async find(actor: Actor, id: string): Promise<ComparisonDetailRow | undefined> {
      const found = readable(actor)
        .where({ 'r.id': id })
        .select('r.specification', 'r.results', db.raw(listSortKeySql('r.created_at')));
      return queryFirstRow(db, comparisonDetailRowShape, found);
    },
  };
}
