import type { Knex } from 'knex';
import {
  defineRowShape,
  doubleColumn,
  jsonColumn,
  pickColumns,
  queryFirstRow,
  queryRows,
  textColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { GoldenTestCase } from '#src/domain/agents/drafts.ts';
import type { EvalScores } from '#src/domain/judging/eval-scores.ts';
import type { Judgement, TestCaseText } from '#src/domain/judging/judgement.ts';
import type { EvaluationStatus } from '#src/domain/judging/outcome.ts';
import { DraftModel, DraftVersionModel } from '#src/modules/drafts/drafts.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';
import {
  type AgentPromptToEvaluate,
  EvaluationCountPerDayModel,
  EvaluationJudgeCallModel,
  type EvaluationRun,
  EvaluationRunModel,
  type EvaluationSpecificationWithoutCases,
  type GeneratedTestAnswer,
  GeneratedTestAnswerModel,
  JudgementModel,
  type StoredJudgement,
} from './evaluations.model.ts';
import { type ReportedEvaluationScores, readEvaluationScores } from './report.ts';

type NewRun = Omit<EvaluationRun, 'createdAt' | 'finishedAt' | 'results' | 'failedUnits'>;
type RunKey = { orgId: string; runId: string };
type VersionKey = { orgId: string; draftId: string; id: string };

const runTerms = defineRowShape({ terms: jsonColumn<EvaluationSpecificationWithoutCases>() });
const runCase = defineRowShape({ case: jsonColumn<TestCaseText>().nullable() });
const failureCount = pickColumns(EvaluationJudgeCallModel, 'failures');
const pauseLength = defineRowShape({ seconds: doubleColumn() });
const unitAnswer = defineRowShape({ unit: textColumn(), answer: textColumn() });
const unitVerdict = defineRowShape({ unit: textColumn(), verdict: jsonColumn<Judgement>() });
const storedScores = pickColumns(DraftVersionModel, 'evalScores');

export type EvaluationsRepository = ReturnType<typeof createEvaluationsRepository>;

export function createEvaluationsRepository(db: Knex) {
  const runs = ({ orgId, runId }: RunKey) => EvaluationRunModel.table(db).where({ orgId, id: runId });
  const answers = ({ orgId, runId }: RunKey) =>
    db('evaluationUnits as u')
      .join('generatedAnswers as a', { 'a.orgId': 'u.orgId', 'a.cacheKey': 'u.cacheKey' })
      .where({ 'u.orgId': orgId, runId })
      .select('unit', 'answer');

  return {
    async insertRun(run: NewRun): Promise<EvaluationRun> {
      return EvaluationRunModel.query(db).insert(run).returning('*');
    },

    async findRun({ orgId, runId }: RunKey): Promise<EvaluationRun | undefined> {
      return EvaluationRunModel.query(db).findOne({ orgId, id: runId });
    },

    /**
     * Counts the golden cases evaluated today. The caller must hold the organization's lock, because concurrent
     * requests could otherwise exceed the daily limit.
     */
    async countCasesOfToday(orgId: string): Promise<number> {
      const row = await EvaluationCountPerDayModel.table(db)
        .where({ orgId })
        .whereRaw(`day = (now() at time zone 'utc')::date`)
        .first('cases');
      return row?.cases ?? 0;
    },

    async addCasesOfToday(orgId: string, cases: number): Promise<void> {
      await db.raw(
        `insert into evaluation_days as d (org_id, day, cases) values (:orgId, (now() at time zone 'utc')::date, :cases)
         on conflict (org_id, day) do update set cases = d.cases + excluded.cases`,
        { orgId, cases },
      );
      await EvaluationCountPerDayModel.query(db)
        .where({ orgId })
        .whereRaw(`day < (now() at time zone 'utc')::date`)
        .delete();
    },

    /** Deletes up to `limit` runs older than `days` without draft and open job. Returns the number of runs. */
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

    async setGoldenCases({ orgId, id }: VersionKey, goldenCases: GoldenTestCase[]): Promise<void> {
      await DraftVersionModel.query(db).where({ orgId, id }).patch({ goldenCases });
    },

    /**
     * Links a draft version to its evaluation run. Increments the row version of the draft, so that the `If-Match`
     * check of clients notices the change.
     */
    async setVersionRun(
      { orgId, draftId, id }: VersionKey,
      run: { evalRunId: string; evalStatus: EvaluationStatus; evalScores?: EvalScores },
    ): Promise<void> {
      await DraftVersionModel.query(db).where({ orgId, id }).patch(run);
      await DraftModel.query(db).where({ orgId, id: draftId }).increment('version', 1);
    },

    /** Locks an evaluation run until the transaction ends, so that run, version and draft cannot be deleted. */
    async lockRun(of: RunKey): Promise<Pick<EvaluationRun, 'estimatedCalls'> | undefined> {
      return runs(of).forNoKeyUpdate().first('estimatedCalls');
    },

    async findTerms(of: RunKey): Promise<EvaluationSpecificationWithoutCases | undefined> {
      const terms = db.raw(`specification - 'cases' as terms`);
      return (await queryFirstRow(db, runTerms, runs(of).select(terms)))?.terms;
    },

    async findCase(of: RunKey, caseIndex: number): Promise<TestCaseText | undefined> {
      const found = db.raw(`specification #> array['cases', ?] as "case"`, [`${caseIndex}`]);
      return (await queryFirstRow(db, runCase, runs(of).select(found)))?.case ?? undefined;
    },

    /** Locks the draft whose version gets scores. Must be the transaction's first lock, to avoid deadlocks. */
    async lockDraft(orgId: string, draftId: string): Promise<void> {
      await DraftModel.table(db).where({ orgId, id: draftId }).forShare().first('id');
    },

    async findText(orgId: string, versionId: string): Promise<AgentPromptToEvaluate | undefined> {
      return DraftVersionModel.table(db)
        .where({ orgId, id: versionId })
        .first('agentName', 'agentPrompt', 'tags', 'temperature', 'maxTokens');
    },

    async resetFailures({ orgId, runId }: RunKey): Promise<void> {
      await EvaluationJudgeCallModel.query(db).where({ orgId, runId }).patch({ failures: 0, pausedSince: null });
    },

    /**
     * Counts a failed attempt at an answer or verdict (`unit`). Returns the number of failed attempts so far; undefined
     * if the run was deleted.
     */
    async countFailure({ orgId, runId }: RunKey, unit: string): Promise<number | undefined> {
      const row = await queryFirstRow(
        db,
        failureCount,
        `insert into evaluation_units as u (org_id, run_id, unit, failures)
         select org_id, id, :unit, 1 from evaluation_runs where org_id = :orgId and id = :runId
         on conflict (org_id, run_id, unit) do update set failures = u.failures + 1
         returning failures`,
        { orgId, runId, unit },
      );
      return row?.failures;
    },

    /**
     * Records that the provider responded with `Retry-After` for an answer or verdict (`unit`). Returns the seconds
     * since its first such response; undefined if the run was deleted.
     */
    async countPause({ orgId, runId }: RunKey, unit: string): Promise<number | undefined> {
      const row = await queryFirstRow(
        db,
        pauseLength,
        `insert into evaluation_units as u (org_id, run_id, unit, paused_since)
         select org_id, id, :unit, now() from evaluation_runs where org_id = :orgId and id = :runId
         on conflict (org_id, run_id, unit) do update set paused_since = coalesce(u.paused_since, now())
         returning extract(epoch from now() - paused_since)::float as seconds`,
        { orgId, runId, unit },
      );
      return row?.seconds;
    },

    /** Links a stored answer or verdict to its locked run. Returns how many results of the run are finished. */
    async linkResult({ orgId, runId }: RunKey, unit: string, cacheKey: Buffer): Promise<number> {
      await EvaluationJudgeCallModel.query(db)
        .insert({ orgId, runId, unit, cacheKey })
        .onConflict(['orgId', 'runId', 'unit'])
        .merge(['cacheKey']);
      return EvaluationJudgeCallModel.query(db).where({ orgId, runId }).whereNotNull('cacheKey').resultSize();
    },

    async lockJudgement(orgId: string, cacheKey: Buffer): Promise<boolean> {
      const stored = JudgementModel.table(db).where({ orgId, cacheKey });
      return (await stored.forKeyShare().skipLocked().first('model')) !== undefined;
    },

    /** Stores a verdict unless it is already stored. In both cases its row is locked until the transaction ends. */
    async insertJudgement(orgId: string, judgement: StoredJudgement): Promise<void> {
      await JudgementModel.query(db)
        .insert({ ...judgement, orgId })
        .onConflict(['orgId', 'cacheKey'])
        .merge(['model']);
    },

    async lockAnswer(orgId: string, cacheKey: Buffer): Promise<boolean> {
      const stored = GeneratedTestAnswerModel.table(db).where({ orgId, cacheKey });
      return (await stored.forKeyShare().skipLocked().first('model')) !== undefined;
    },

    async insertAnswer(orgId: string, answer: GeneratedTestAnswer): Promise<void> {
      await GeneratedTestAnswerModel.query(db)
        .insert({ ...answer, orgId })
        .onConflict(['orgId', 'cacheKey'])
        .merge(['model']);
    },

    async listAnswers(of: RunKey): Promise<Map<string, string>> {
      return new Map((await queryRows(db, unitAnswer, answers(of))).map(({ unit, answer }) => [unit, answer]));
    },

    async findAnswerOf(of: RunKey, unit: string): Promise<string | undefined> {
      return (await queryFirstRow(db, unitAnswer, answers(of).where({ unit })))?.answer;
    },

    async listVerdicts({ orgId, runId }: RunKey): Promise<Map<string, Judgement>> {
      const verdicts = db('evaluationUnits as u')
        .join('judgements as j', { 'j.orgId': 'u.orgId', 'j.cacheKey': 'u.cacheKey' })
        .where({ 'u.orgId': orgId, 'u.runId': runId })
        .select('u.unit', 'j.verdict');
      return new Map((await queryRows(db, unitVerdict, verdicts)).map(({ unit, verdict }) => [unit, verdict]));
    },

    async storeResults(
      { orgId, runId }: RunKey,
      { results, failedUnits }: Pick<EvaluationRun, 'results' | 'failedUnits'>,
    ): Promise<EvaluationRun> {
      const [stored] = await EvaluationRunModel.query(db)
        .where({ orgId, id: runId })
        .patch({ results, failedUnits, finishedAt: db.fn.now() })
        .returning('*');
      if (stored === undefined) throw new Error(`evaluation run ${runId} does not exist`);
      return stored;
    },

    /**
     * Finds the scores of the version's parent, which an evaluation run or a client has stored. Returns null if they
     * are missing or malformed.
     */
    async findParentScores(orgId: string, versionId: string): Promise<ReportedEvaluationScores | null> {
      const parents = db('draftVersions as v')
        .join('draftVersions as p', { 'p.orgId': 'v.orgId', 'p.id': 'v.parentVersionId' })
        .where({ 'v.orgId': orgId, 'v.id': versionId })
        .select('p.evalScores');
      return readEvaluationScores((await queryFirstRow(db, storedScores, parents))?.evalScores);
    },

    async setVersionOutcome(
      { orgId, runId }: RunKey,
      evalStatus: 'completed' | 'partial' | 'failed',
      evalScores: EvalScores | null,
    ): Promise<void> {
      await DraftVersionModel.query(db)
        .where({ orgId, evalRunId: runId })
        .patch({ evalStatus, ...(evalScores !== null && { evalScores }) });
    },
  };
}
