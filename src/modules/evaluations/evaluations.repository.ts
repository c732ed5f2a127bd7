import type { Knex } from 'knex';
import type { GoldenCase } from '#src/domain/agents/drafts.ts';
import type { EvalScores } from '#src/domain/judging/eval-scores.ts';
import type { EvalStatus } from '#src/domain/judging/outcome.ts';
import { DraftModel, VersionModel } from '#src/modules/drafts/drafts.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';
import { EvaluationDayModel, type EvaluationRun, EvaluationRunModel } from './evaluations.model.ts';

type NewRun = Omit<EvaluationRun, 'createdAt' | 'finishedAt' | 'results' | 'failedUnits'>;
type VersionKey = { orgId: string; draftId: string; id: string };

export function createEvaluationsRepository(db: Knex) {
  return {
    async insertRun(run: NewRun): Promise<EvaluationRun> {
      return EvaluationRunModel.query(db).insert(run).returning('*');
    },

    async findRun(orgId: string, id: string): Promise<EvaluationRun | undefined> {
      return EvaluationRunModel.query(db).findOne({ orgId, id });
    },

    /** Cases of today. To be called with the organization locked, so that nobody counts the same. */
    async countCasesOfToday(orgId: string): Promise<number> {
      const row = await EvaluationDayModel.table(db)
        .where({ orgId })
        .whereRaw(`day = (now() at time zone 'utc')::date`)
        .first('cases');
      return row?.cases ?? 0;
    },

    /** Yesterday's count is nobody's business any more. */
    async addCasesOfToday(orgId: string, cases: number): Promise<void> {
      await db.raw(
        `insert into evaluation_days as d (org_id, day, cases) values (:orgId, (now() at time zone 'utc')::date, :cases)
         on conflict (org_id, day) do update set cases = d.cases + excluded.cases`,
        { orgId, cases },
      );
      await EvaluationDayModel.query(db).where({ orgId }).whereRaw(`day < (now() at time zone 'utc')::date`).delete();
    },

    async setGoldenCases({ orgId, id }: VersionKey, goldenCases: GoldenCase[]): Promise<void> {
      await VersionModel.query(db).where({ orgId, id }).patch({ goldenCases });
    },

    /** On request of a client, for whom it is a change of the draft. */
    async showRun(
      { orgId, draftId, id }: VersionKey,
      run: { evalRunId: string; evalStatus: EvalStatus; evalScores?: EvalScores },
    ): Promise<void> {
      await VersionModel.query(db).where({ orgId, id }).patch(run);
      await DraftModel.query(db).where({ orgId, id: draftId }).increment('version', 1);
    },

    /** Of prompts that belong to no draft and that nobody waits for again, some at a time. @returns how many there were */
    async deleteAdhocOlderThan(days: number, limit: number): Promise<number> {
      return EvaluationRunModel.query(db)
        .whereIn(
          'id',
          EvaluationRunModel.table(db)
            .whereNull('draftId')
            .whereRaw('created_at < now() - make_interval(days => ?)', [days])
            .whereNotExists(
              JobModel.table(db).whereRaw('jobs.id = evaluation_runs.id').whereNull('jobs.finishedAt').select('id'),
            )
            .orderBy('createdAt')
            .limit(limit)
            .select('id'),
        )
        .delete();
    },
  };
}
