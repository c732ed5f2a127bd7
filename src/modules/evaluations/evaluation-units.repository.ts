import type { Knex } from 'knex';
import { double, json, text } from '#src/adapters/postgres/columns.ts';
import { firstRow, pick, rows, shape } from '#src/adapters/postgres/shapes.ts';
import type { EvalScores } from '#src/domain/judging/eval-scores.ts';
import type { CaseText, Judgement } from '#src/domain/judging/judgement.ts';
import { DraftModel, VersionModel } from '#src/modules/drafts/drafts.model.ts';
import {
  type EvaluatedText,
  type EvaluationRun,
  EvaluationRunModel,
  EvaluationUnitModel,
  type GeneratedAnswer,
  GeneratedAnswerModel,
  JudgementModel,
  type RunTerms,
  type StoredJudgement,
} from './evaluations.model.ts';
import { type ReportedScores, readScores } from './reported-scores.ts';

type RunKey = { orgId: string; runId: string };

const runTerms = shape({ terms: json<RunTerms>() });
const runCase = shape({ case: json<CaseText>().nullable() });
const failureCount = pick(EvaluationUnitModel, 'failures');
const pauseLength = shape({ seconds: double() });
const unitAnswer = shape({ unit: text(), answer: text() });
const unitVerdict = shape({ unit: text(), verdict: json<Judgement>() });
const storedScores = pick(VersionModel, 'evalScores');

/** What the steps of runs read and write. */
export function createEvaluationUnitsRepository(db: Knex) {
  const runs = ({ orgId, runId }: RunKey) => EvaluationRunModel.table(db).where({ orgId, id: runId });
  const answers = ({ orgId, runId }: RunKey) =>
    db('evaluationUnits as u')
      .join('generatedAnswers as a', { 'a.orgId': 'u.orgId', 'a.cacheKey': 'u.cacheKey' })
      .where({ 'u.orgId': orgId, runId })
      .select('unit', 'answer');

  return {
    /** Held until the end of the transaction: what it speaks about cannot go meanwhile. */
    async lockRun(of: RunKey): Promise<Pick<EvaluationRun, 'estimatedCalls'> | undefined> {
      return runs(of).forNoKeyUpdate().first('estimatedCalls');
    },

    async findRun({ orgId, runId }: RunKey): Promise<EvaluationRun | undefined> {
      return EvaluationRunModel.query(db).findOne({ orgId, id: runId });
    },

    /** Without the cases, which may be megabytes. */
    async findTerms(of: RunKey): Promise<RunTerms | undefined> {
      const terms = db.raw(`specification - 'cases' as terms`);
      return (await firstRow(db, runTerms, runs(of).select(terms)))?.terms;
    },

    async findCase(of: RunKey, caseIndex: number): Promise<CaseText | undefined> {
      const found = db.raw(`specification #> array['cases', ?] as "case"`, [`${caseIndex}`]);
      return (await firstRow(db, runCase, runs(of).select(found)))?.case ?? undefined;
    },

    /** Before all other locks of who stores scores: a draft that is changed or deleted is waited for. */
    async holdDraft(orgId: string, draftId: string): Promise<void> {
      await DraftModel.table(db).where({ orgId, id: draftId }).forShare().first('id');
    },

    async findText(orgId: string, versionId: string): Promise<EvaluatedText | undefined> {
      return VersionModel.table(db)
        .where({ orgId, id: versionId })
        .first('agentName', 'agentPrompt', 'tags', 'temperature', 'maxTokens');
    },

    /** Forgets how often models have failed the attempt before, or asked for a pause. */
    async forgetFailures({ orgId, runId }: RunKey): Promise<void> {
      await EvaluationUnitModel.query(db).where({ orgId, runId }).patch({ failures: 0, pausedSince: null });
    },

    /** @returns how often that is now; undefined when the run is gone */
    async countFailure({ orgId, runId }: RunKey, unit: string): Promise<number | undefined> {
      const row = await firstRow(
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

    /** @returns seconds since the first pause; undefined when the run is gone */
    async countPause({ orgId, runId }: RunKey, unit: string): Promise<number | undefined> {
      const row = await firstRow(
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

    /** Says where the result of a unit is found. To be called with the run locked. @returns how many are done */
    async settle({ orgId, runId }: RunKey, unit: string, cacheKey: Buffer): Promise<number> {
      await EvaluationUnitModel.query(db)
        .insert({ orgId, runId, unit, cacheKey })
        .onConflict(['orgId', 'runId', 'unit'])
        .merge(['cacheKey']);
      return EvaluationUnitModel.query(db).where({ orgId, runId }).whereNotNull('cacheKey').resultSize();
    },

    /** False when there is none, or it is being deleted; else it stays until the end of the transaction. */
    async holdJudgement(orgId: string, cacheKey: Buffer): Promise<boolean> {
      const stored = JudgementModel.table(db).where({ orgId, cacheKey });
      return (await stored.forKeyShare().skipLocked().first('model')) !== undefined;
    },

    /** The first one stays, and until the end of the transaction in any case. */
    async insertJudgement(orgId: string, judgement: StoredJudgement): Promise<void> {
      await JudgementModel.query(db)
        .insert({ ...judgement, orgId })
        .onConflict(['orgId', 'cacheKey'])
        .merge(['model']);
    },

    /** As `holdJudgement`. */
    async holdAnswer(orgId: string, cacheKey: Buffer): Promise<boolean> {
      const stored = GeneratedAnswerModel.table(db).where({ orgId, cacheKey });
      return (await stored.forKeyShare().skipLocked().first('model')) !== undefined;
    },

    /** As `insertJudgement`. */
    async insertAnswer(orgId: string, answer: GeneratedAnswer): Promise<void> {
      await GeneratedAnswerModel.query(db)
        .insert({ ...answer, orgId })
        .onConflict(['orgId', 'cacheKey'])
        .merge(['model']);
    },

    /** What a run was answered, by the names of its units. */
    async listAnswers(of: RunKey): Promise<Map<string, string>> {
      return new Map((await rows(db, unitAnswer, answers(of))).map(({ unit, answer }) => [unit, answer]));
    },

    async findAnswerOf(of: RunKey, unit: string): Promise<string | undefined> {
      return (await firstRow(db, unitAnswer, answers(of).where({ unit })))?.answer;
    },

    async listVerdicts({ orgId, runId }: RunKey): Promise<Map<string, Judgement>> {
      const verdicts = db('evaluationUnits as u')
        .join('judgements as j', { 'j.orgId': 'u.orgId', 'j.cacheKey': 'u.cacheKey' })
        .where({ 'u.orgId': orgId, 'u.runId': runId })
        .select('u.unit', 'j.verdict');
      return new Map((await rows(db, unitVerdict, verdicts)).map(({ unit, verdict }) => [unit, verdict]));
    },

    async storeResults(
      { orgId, runId }: RunKey,
      { results, failedUnits }: Pick<EvaluationRun, 'results' | 'failedUnits'>,
    ): Promise<EvaluationRun> {
      const [stored] = await EvaluationRunModel.query(db)
        .where({ orgId, id: runId })
        .patch({ results, failedUnits, finishedAt: db.fn.now() })
        .returning('*');
      if (stored === undefined) throw new Error(`no run ${runId}`);
      return stored;
    },

    /** Of the version before, also those that came with its commit; null for what can be compared with nothing. */
    async findParentScores(orgId: string, versionId: string): Promise<ReportedScores | null> {
      const parents = db('draftVersions as v')
        .join('draftVersions as p', { 'p.orgId': 'v.orgId', 'p.id': 'v.parentVersionId' })
        .where({ 'v.orgId': orgId, 'v.id': versionId })
        .select('p.evalScores');
      return readScores((await firstRow(db, storedScores, parents))?.evalScores);
    },

    /** On the versions that the run was begun for. */
    async showEnd(
      { orgId, runId }: RunKey,
      evalStatus: 'completed' | 'partial' | 'failed',
      evalScores: EvalScores | null,
    ): Promise<void> {
      await VersionModel.query(db)
        .where({ orgId, evalRunId: runId })
        .patch({ evalStatus, ...(evalScores !== null && { evalScores }) });
    },
  };
}
