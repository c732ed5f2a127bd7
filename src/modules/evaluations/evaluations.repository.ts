import type { GoldenCase } from '#src/domain/draft-fields.ts';
import type { EvalStatus } from '#src/domain/judging/eval-status.ts';
import type { Db } from '#src/ports/database.ts';
import type { EvaluationRun } from './evaluations.model.ts';

type NewRun = Omit<EvaluationRun, 'createdAt' | 'finishedAt' | 'results' | 'failedUnits'>;
type VersionKey = { orgId: string; draftId: string; id: string };

export function createEvaluationsRepository(db: Db) {
  return {
    async insertRun(run: NewRun): Promise<EvaluationRun> {
      const [stored] = await db('evaluationRuns')
        .insert({ ...run, specification: JSON.stringify(run.specification) })
        .returning<EvaluationRun[]>('*');
      if (stored === undefined) throw new Error('the insert returned no row');
      return stored;
    },

    async findRun(orgId: string, id: string): Promise<EvaluationRun | undefined> {
      return db<EvaluationRun>('evaluationRuns').where({ orgId, id }).first();
    },

    /** Cases of today. To be called with the organization locked, so that nobody counts the same. */
    async countCasesOfToday(orgId: string): Promise<number> {
      const row = await db('evaluationDays')
        .where({ orgId })
        .whereRaw(`day = (now() at time zone 'utc')::date`)
        .first<{ cases: number } | undefined>('cases');
      return row?.cases ?? 0;
    },

    /** Yesterday's count is nobody's business any more. */
    async addCasesOfToday(orgId: string, cases: number): Promise<void> {
      await db.raw(
        `insert into evaluation_days as d (org_id, day, cases) values (:orgId, (now() at time zone 'utc')::date, :cases)
         on conflict (org_id, day) do update set cases = d.cases + excluded.cases`,
        { orgId, cases },
      );
      await db('evaluationDays').where({ orgId }).whereRaw(`day < (now() at time zone 'utc')::date`).delete();
    },

    async setGoldenCases({ orgId, id }: VersionKey, goldenCases: readonly GoldenCase[]): Promise<void> {
      await db('draftVersions')
        .where({ orgId, id })
        .update({ goldenCases: JSON.stringify(goldenCases) });
    },

    /** On request of a client, for whom it is a change of the draft. */
    async showRun(
      { orgId, draftId, id }: VersionKey,
      run: { evalRunId: string; evalStatus: EvalStatus; evalScores?: object },
    ): Promise<void> {
      const { evalScores, ...others } = run;
      await db('draftVersions')
        .where({ orgId, id })
        .update({ ...others, ...(evalScores !== undefined && { evalScores: JSON.stringify(evalScores) }) });
      await db('drafts').where({ orgId, id: draftId }).increment('version');
    },

    /** Of prompts that belong to no draft and that nobody waits for again, some at a time. @returns how many there were */
    async deleteAdhocOlderThan(days: number, limit: number): Promise<number> {
      return db('evaluationRuns')
        .whereIn(
          'id',
          db('evaluationRuns')
            .whereNull('draftId')
            .whereRaw('created_at < now() - make_interval(days => ?)', [days])
            .whereNotExists(
              db('jobs').whereRaw('jobs.id = evaluation_runs.id').whereNull('jobs.finishedAt').select('id'),
            )
            .orderBy('createdAt')
            .limit(limit)
            .select('id'),
        )
        .delete();
    },
  };
}
