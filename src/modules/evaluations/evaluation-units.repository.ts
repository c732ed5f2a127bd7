import type { EvalScores } from '#src/domain/judging/eval-scores.ts';
import type { Judgement } from '#src/domain/judging/judgement.ts';
import type { Db } from '#src/ports/database.ts';
import type { EvaluatedText, EvaluationRun, GeneratedAnswer, StoredJudgement } from './evaluations.model.ts';
import { type ReportedScores, readScores } from './reported-scores.ts';

type RunKey = { orgId: string; runId: string };

/** What the steps of runs read and write. */
export function createEvaluationUnitsRepository(db: Db) {
  return {
    /** Held until the end of the transaction: what it speaks about cannot go meanwhile. */
    async lockRun({ orgId, runId }: RunKey): Promise<EvaluationRun | undefined> {
      return db<EvaluationRun>('evaluationRuns').where({ orgId, id: runId }).forNoKeyUpdate().first();
    },

    async findRun({ orgId, runId }: RunKey): Promise<EvaluationRun | undefined> {
      return db<EvaluationRun>('evaluationRuns').where({ orgId, id: runId }).first();
    },

    /** Before all other locks of who stores scores: a draft that is changed or deleted is waited for. */
    async holdDraft(orgId: string, draftId: string): Promise<void> {
      await db('drafts').where({ orgId, id: draftId }).forShare().first('id');
    },

    async findText(orgId: string, versionId: string): Promise<EvaluatedText | undefined> {
      return db('draftVersions')
        .where({ orgId, id: versionId })
        .first('agentName', 'agentPrompt', 'tags', 'temperature', 'maxTokens');
    },

    /** Forgets how often models have failed the attempt before. */
    async forgetFailures({ orgId, runId }: RunKey): Promise<void> {
      await db('evaluationUnits').where({ orgId, runId }).update({ failures: 0 });
    },

    /** @returns how often that is now; undefined when the run is gone */
    async countFailure({ orgId, runId }: RunKey, unit: string): Promise<number | undefined> {
      const { rows } = await db.raw<{ rows: { failures: number }[] }>(
        `insert into evaluation_units as u (org_id, run_id, unit, failures)
         select org_id, id, :unit, 1 from evaluation_runs where org_id = :orgId and id = :runId
         on conflict (org_id, run_id, unit) do update set failures = u.failures + 1
         returning failures`,
        { orgId, runId, unit },
      );
      return rows[0]?.failures;
    },

    /** Says where the result of a unit is found. To be called with the run locked. @returns how many are done */
    async settle({ orgId, runId }: RunKey, unit: string, cacheKey: Buffer): Promise<number> {
      await db('evaluationUnits')
        .insert({ orgId, runId, unit, cacheKey })
        .onConflict(['orgId', 'runId', 'unit'])
        .merge(['cacheKey']);
      const [row] = await db('evaluationUnits')
        .where({ orgId, runId })
        .whereNotNull('cacheKey')
        .count<{ count: number }[]>();
      return row?.count ?? 0;
    },

    async findJudgement(orgId: string, cacheKey: Buffer): Promise<StoredJudgement | undefined> {
      return db('judgements').where({ orgId, cacheKey }).first<StoredJudgement | undefined>();
    },

    /** The first one stays. @returns whether this is the first */
    async insertJudgement(orgId: string, judgement: StoredJudgement): Promise<boolean> {
      const row = { ...judgement, orgId, verdict: JSON.stringify(judgement.verdict) };
      return (await db('judgements').insert(row).onConflict().ignore().returning('model')).length > 0;
    },

    async findAnswer(orgId: string, cacheKey: Buffer): Promise<GeneratedAnswer | undefined> {
      return db('generatedAnswers').where({ orgId, cacheKey }).first<GeneratedAnswer | undefined>();
    },

    /** The first one stays. */
    async insertAnswer(orgId: string, answer: GeneratedAnswer): Promise<boolean> {
      const row = { ...answer, orgId };
      return (await db('generatedAnswers').insert(row).onConflict().ignore().returning('model')).length > 0;
    },

    /** What a run was answered, by the names of its units. */
    async listAnswers({ orgId, runId }: RunKey): Promise<Map<string, string>> {
      const rows: { unit: string; answer: string }[] = await db('evaluationUnits as u')
        .join('generatedAnswers as a', { 'a.orgId': 'u.orgId', 'a.cacheKey': 'u.cacheKey' })
        .where({ 'u.orgId': orgId, 'u.runId': runId })
        .select('u.unit', 'a.answer');
      return new Map(rows.map(({ unit, answer }) => [unit, answer]));
    },

    async findAnswerOf({ orgId, runId }: RunKey, unit: string): Promise<string | undefined> {
      const row: { answer: string } | undefined = await db('evaluationUnits as u')
        .join('generatedAnswers as a', { 'a.orgId': 'u.orgId', 'a.cacheKey': 'u.cacheKey' })
        .where({ 'u.orgId': orgId, 'u.runId': runId, 'u.unit': unit })
        .first('a.answer');
      return row?.answer;
    },

    async listVerdicts({ orgId, runId }: RunKey): Promise<Map<string, Judgement>> {
      const rows: { unit: string; verdict: Judgement }[] = await db('evaluationUnits as u')
        .join('judgements as j', { 'j.orgId': 'u.orgId', 'j.cacheKey': 'u.cacheKey' })
        .where({ 'u.orgId': orgId, 'u.runId': runId })
        .select('u.unit', 'j.verdict');
      return new Map(rows.map(({ unit, verdict }) => [unit, verdict]));
    },

    async storeResults(
      { orgId, runId }: RunKey,
      { results, failedUnits }: Pick<EvaluationRun, 'results' | 'failedUnits'>,
    ): Promise<EvaluationRun> {
      const [stored] = await db('evaluationRuns')
        .where({ orgId, id: runId })
        .update({
          results: JSON.stringify(results),
          failedUnits: JSON.stringify(failedUnits),
          finishedAt: db.fn.now(),
        })
        .returning<EvaluationRun[]>('*');
      if (stored === undefined) throw new Error(`no run ${runId}`);
      return stored;
    },

    /** Of the version before, also those that came with its commit; null for what can be compared with nothing. */
    async findParentScores(orgId: string, versionId: string): Promise<ReportedScores | null> {
      const row: { evalScores: object | null } | undefined = await db('draftVersions as v')
        .join('draftVersions as p', { 'p.orgId': 'v.orgId', 'p.id': 'v.parentVersionId' })
        .where({ 'v.orgId': orgId, 'v.id': versionId })
        .first('p.evalScores');
      return readScores(row?.evalScores);
    },

    /** On the versions that the run was begun for. */
    async showEnd(
      { orgId, runId }: RunKey,
      evalStatus: 'completed' | 'partial' | 'failed',
      evalScores: EvalScores | null,
    ): Promise<void> {
      await db('draftVersions')
        .where({ orgId, evalRunId: runId })
        .update({ evalStatus, ...(evalScores !== null && { evalScores: JSON.stringify(evalScores) }) });
    },
  };
}
