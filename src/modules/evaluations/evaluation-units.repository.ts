import type { EvalScores } from '#src/domain/judging/eval-scores.ts';
import type { CaseText, Judgement } from '#src/domain/judging/judgement.ts';
import type { Db } from '#src/ports/database.ts';
import type { EvaluatedText, EvaluationRun, GeneratedAnswer, RunTerms, StoredJudgement } from './evaluations.model.ts';
import { type ReportedScores, readScores } from './reported-scores.ts';

type RunKey = { orgId: string; runId: string };

/** What the steps of runs read and write. */
export function createEvaluationUnitsRepository(db: Db) {
  return {
    /** Held until the end of the transaction: what it speaks about cannot go meanwhile. */
    async lockRun({ orgId, runId }: RunKey): Promise<Pick<EvaluationRun, 'estimatedCalls'> | undefined> {
      return db<EvaluationRun>('evaluationRuns')
        .where({ orgId, id: runId })
        .forNoKeyUpdate()
        .first<Pick<EvaluationRun, 'estimatedCalls'> | undefined>('estimatedCalls');
    },

    async findRun({ orgId, runId }: RunKey): Promise<EvaluationRun | undefined> {
      return db<EvaluationRun>('evaluationRuns').where({ orgId, id: runId }).first();
    },

    /** Without the cases, which may be megabytes. */
    async findTerms({ orgId, runId }: RunKey): Promise<RunTerms | undefined> {
      const row: { terms: RunTerms } | undefined = await db('evaluationRuns')
        .where({ orgId, id: runId })
        .first(db.raw(`specification - 'cases' as terms`));
      return row?.terms;
    },

    async findCase({ orgId, runId }: RunKey, caseIndex: number): Promise<CaseText | undefined> {
      const row: { case: CaseText | null } | undefined = await db('evaluationRuns')
        .where({ orgId, id: runId })
        .first(db.raw(`specification #> array['cases', ?] as "case"`, [`${caseIndex}`]));
      return row?.case ?? undefined;
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

    /** Forgets how often models have failed the attempt before, or asked for a pause. */
    async forgetFailures({ orgId, runId }: RunKey): Promise<void> {
      await db('evaluationUnits').where({ orgId, runId }).update({ failures: 0, pausedSince: null });
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

    /** @returns seconds since the first pause; undefined when the run is gone */
    async countPause({ orgId, runId }: RunKey, unit: string): Promise<number | undefined> {
      const { rows } = await db.raw<{ rows: { seconds: number }[] }>(
        `insert into evaluation_units as u (org_id, run_id, unit, paused_since)
         select org_id, id, :unit, now() from evaluation_runs where org_id = :orgId and id = :runId
         on conflict (org_id, run_id, unit) do update set paused_since = coalesce(u.paused_since, now())
         returning extract(epoch from now() - paused_since)::float as seconds`,
        { orgId, runId, unit },
      );
      return rows[0]?.seconds;
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

    /** False when there is none, or it is being deleted; else it stays until the end of the transaction. */
    async holdJudgement(orgId: string, cacheKey: Buffer): Promise<boolean> {
      return (
        (await db('judgements').where({ orgId, cacheKey }).forKeyShare().skipLocked().first('model')) !== undefined
      );
    },

    /** The first one stays, and until the end of the transaction in any case. */
    async insertJudgement(orgId: string, judgement: StoredJudgement): Promise<void> {
      const row = { ...judgement, orgId, verdict: JSON.stringify(judgement.verdict) };
      await db('judgements').insert(row).onConflict(['orgId', 'cacheKey']).merge(['model']);
    },

    /** As `holdJudgement`. */
    async holdAnswer(orgId: string, cacheKey: Buffer): Promise<boolean> {
      const answers = db('generatedAnswers').where({ orgId, cacheKey });
      return (await answers.forKeyShare().skipLocked().first('model')) !== undefined;
    },

    /** As `insertJudgement`. */
    async insertAnswer(orgId: string, answer: GeneratedAnswer): Promise<void> {
      await db('generatedAnswers')
        .insert({ ...answer, orgId })
        .onConflict(['orgId', 'cacheKey'])
        .merge(['model']);
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
