import type { Knex } from 'knex';
import type { AttemptOfJob } from '#src/contracts/attempts.ts';
import type {
  AnswerCaseInput,
  EvaluationInput,
  EvaluationPlan,
  JudgeUnitInput,
  RecordEvaluationEndInput,
  RecordEvaluationFailureInput,
  ScoreEvaluationInput,
  StepsResult,
} from '#src/contracts/evaluation.ts';
import { costUsd } from '#src/domain/agents/models.ts';
import { isReference } from '#src/domain/judging/axes.ts';
import { nothingSpent, type Spending } from '#src/domain/judging/judgement.ts';
import { outcomeOf } from '#src/domain/judging/outcome.ts';
import { namesOfFailed } from '#src/domain/judging/results.ts';
import { rubricVersion } from '#src/domain/judging/rubric.ts';
import { answerName, unitName } from '#src/domain/judging/units.ts';
import { AppError, appError } from '#src/errors.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { CallLimiter, ChatModel, ModelUsage } from '#src/ports/models.ts';
import { type Answerer, answerKey } from './answerer.ts';
import { evalScoresOfRun } from './eval-scores-of-run.ts';
import { createEvaluationUnitsRepository } from './evaluation-units.repository.ts';
import type { EvaluationRun, RunTerms } from './evaluations.model.ts';
import type { Judge } from './judge.ts';
import { judgementKey } from './judgement-key.ts';
import { createRunTexts, questionOf, taskOf } from './run-texts.ts';

/** A model that has failed so often on a unit is not asked for it again; a pause that it asks for is no failure. */
const MAX_FAILURES = 5;
/** Unless it asks for one after the other. */
const MAX_PAUSED_SECONDS = 3_600;

/** A model on our own machine answers one after the other; chats come between. */
const LOCAL_CALLS_AT_ONCE = 1;

const foundBefore: Spending = { ...nothingSpent, calls: 1, cached: 1 };

type EvaluationUnitsRepository = ReturnType<typeof createEvaluationUnitsRepository>;

export type EvaluationStepsService = ReturnType<typeof createEvaluationStepsService>;

/** The work of runs, one method a step. Each finds what was done before, and asks no model for it again. */
export function createEvaluationStepsService(deps: {
  db: Knex;
  chatModel: Pick<ChatModel, 'complete'>;
  limiter: CallLimiter;
  createAnswerer: (chatModel: Pick<ChatModel, 'complete'>) => Answerer;
  createJudge: (chatModel: Pick<ChatModel, 'complete'>) => Judge;
  models: Pick<ModelsService, 'find' | 'priceOf'>;
  jobs: Pick<JobsService, 'advance' | 'advanceWithin'>;
}) {
  const { db, limiter, models, jobs } = deps;
  const repository = createEvaluationUnitsRepository(db);

  async function requireRun(of: EvaluationInput): Promise<EvaluationRun> {
    const run = await repository.findRun(of);
    if (run === undefined) throw gone();
    refuseOlderRubric(run.specification);
    return run;
  }

  async function requireTerms(of: EvaluationInput): Promise<RunTerms> {
    const terms = await repository.findTerms(of);
    if (terms === undefined) throw gone();
    refuseOlderRubric(terms);
    return terms;
  }

  /**
   * The calls of an organization wait for each other, in whatever process they are made.
   * @param taken what they take is added to it, whatever comes of them
   */
  const modelOf = (orgId: string, taken: ModelUsage): Pick<ChatModel, 'complete'> => ({
    complete: async (request) => {
      const { model, signal } = request;
      const isLocal = (await models.find(model))?.isLocal ?? false;
      const of = { orgId, model, ...(isLocal && { atOnce: LOCAL_CALLS_AT_ONCE }) };
      const reply = await limiter.run(of, () => deps.chatModel.complete(request), signal);
      taken.inputTokens += reply.usage.inputTokens;
      taken.cachedInputTokens += reply.usage.cachedInputTokens;
      taken.completionTokens += reply.usage.completionTokens;
      return reply;
    },
  });

  async function spent(model: string, usage: ModelUsage): Promise<Spending> {
    const { inputTokens, completionTokens } = usage;
    const price = await models.priceOf(model);
    const cost = price === null ? 0 : costUsd(price, usage);
    return { calls: 1, cached: 0, inputTokens, completionTokens, costUsd: cost };
  }

  /**
   * Says where the run finds what a unit came to.
   * @param hold sees to it that this is there and stays
   * @returns false when it is not there
   */
  async function settle(
    of: EvaluationInput,
    unit: string,
    cacheKey: Buffer,
    hold: (units: EvaluationUnitsRepository) => Promise<boolean>,
  ): Promise<boolean> {
    return db.transaction(async (trx) => {
      const units = createEvaluationUnitsRepository(trx);
      const run = await units.lockRun(of);
      if (run === undefined) throw gone();
      if (!(await hold(units))) return false;
      const done = await units.settle(of, unit, cacheKey);
      const total = run.estimatedCalls;
      await jobs.advanceWithin(trx, of.runId, { progress: { done, total, unit: 'answers' } });
      return true;
    });
  }

  /** What a model failed with for good ends its unit and not the run; what may pass is thrown, to be tried again. */
  async function orFailed(
    { unit, model, ...of }: EvaluationInput & { unit: string; model: string },
    signal: AbortSignal,
    work: (chatModel: Pick<ChatModel, 'complete'>) => Promise<'found' | 'made'>,
  ): Promise<StepsResult> {
    const taken: ModelUsage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };
    try {
      const isFound = (await work(modelOf(of.orgId, taken))) === 'found';
      return { spent: isFound ? foundBefore : await spent(model, taken), failed: [] };
    } catch (error) {
      if (signal.aborted || !(error instanceof AppError) || error.code === 'version_not_found') throw error;
      if (error.errorClass === 'transient' && !(await isEnough(of, unit, error))) throw error;
      return { spent: { ...(await spent(model, taken)), calls: 0 }, failed: [{ unit, code: error.code }] };
    }
  }

  async function isEnough(of: EvaluationInput, unit: string, error: AppError): Promise<boolean> {
    if (error.retryAfterSeconds === undefined) return ((await repository.countFailure(of, unit)) ?? 0) >= MAX_FAILURES;
    return ((await repository.countPause(of, unit)) ?? 0) >= MAX_PAUSED_SECONDS;
  }

  return {
    /** Begins an attempt. Throws `version_not_found` when what it is about is gone, as every step does. */
    async plan(of: EvaluationInput): Promise<EvaluationPlan> {
      const { specification, estimatedCalls } = await requireRun(of);
      await jobs.advance(of.runId, {
        status: 'running',
        stage: 'plan',
        progress: { done: 0, total: estimatedCalls, unit: 'answers' },
      });
      await repository.forgetFailures(of);
      await jobs.advance(of.runId, { stage: 'judge' });
      return {
        rubric: specification.kind === 'evaluate' ? specification.rubric : 'plain',
        judgesPrompt: specification.kind === 'compare' || specification.judgesPrompt,
        cases: specification.cases.map(({ expected }) => isReference(expected)),
        calls: estimatedCalls,
      };
    },

    /** Has a case answered by a version, unless it was before. */
    async answer({ caseIndex, side, ...of }: AnswerCaseInput, signal: AbortSignal): Promise<StepsResult> {
      const { orgId } = of;
      const terms = await requireTerms(of);
      const question = await questionOf(terms, createRunTexts(repository, of, terms), { caseIndex, side });
      const { model } = question;
      const unit = answerName(caseIndex, side);
      return orFailed({ ...of, unit, model }, signal, async (chatModel) => {
        const cacheKey = answerKey(question);
        if (await settle(of, unit, cacheKey, (units) => units.holdAnswer(orgId, cacheKey))) return 'found';
        const { text, usage } = await deps.createAnswerer(chatModel)(question, signal);
        const answer = { cacheKey, model, answer: text, ...usage };
        await settle(of, unit, cacheKey, (units) => units.insertAnswer(orgId, answer).then(() => true));
        return 'made';
      });
    },

    /** Has a unit judged, unless it was before. */
    async judge({ unit, ...of }: JudgeUnitInput, signal: AbortSignal): Promise<StepsResult> {
      const { orgId } = of;
      const terms = await requireTerms(of);
      const name = unitName(unit);
      const model = terms.evaluatorModel;
      return orFailed({ ...of, unit: name, model }, signal, async (chatModel) => {
        const task = await taskOf(createRunTexts(repository, of, terms), unit);
        const cacheKey = judgementKey(task, model);
        if (await settle(of, name, cacheKey, (units) => units.holdJudgement(orgId, cacheKey))) return 'found';
        const { judgement, usage } = await deps.createJudge(chatModel)(task, { model, signal });
        const stored = { cacheKey, model, verdict: judgement, ...usage };
        await settle(of, name, cacheKey, (units) => units.insertJudgement(orgId, stored).then(() => true));
        return 'made';
      });
    },

    /** Adds up what was judged. Throws `eval_incomplete` after that when something is missing. */
    async score({ failed, attempt, startId, ...of }: ScoreEvaluationInput): Promise<void> {
      await jobs.advance(of.runId, { status: 'running', stage: 'score' });
      const run = await requireRun(of);
      const verdicts = await repository.listVerdicts(of);
      const answers = await repository.listAnswers(of);
      const outcome = outcomeOf(run.specification, { verdicts, answers, failed });
      const { status, failedUnits } = outcome;
      await db.transaction(async (trx) => {
        const units = createEvaluationUnitsRepository(trx);
        if (run.draftId !== null) await units.holdDraft(of.orgId, run.draftId);
        if ((await units.lockRun(of)) === undefined) throw gone();
        const scored = await units.storeResults(of, outcome);
        if (status === 'completed') {
          await jobs.advanceWithin(trx, of.runId, { status: 'succeeded' }, { attempt, startId });
        }
        if (run.versionId === null) return;
        const parent = await units.findParentScores(of.orgId, run.versionId);
        await units.showEnd(of, status, status === 'failed' ? null : evalScoresOfRun(scored, parent));
      });
      if (status === 'completed') return;
      const detail = `Of ${run.estimatedCalls} answers of models some are missing: ${namesOfFailed(failedUnits)}.`;
      throw appError('eval_incomplete', { detail });
    },

    async recordFailure({ runId, error, ...of }: RecordEvaluationFailureInput): Promise<void> {
      await jobs.advance(runId, { status: 'failed', error }, attemptOf(of));
    },

    async recordCancellation({ runId, ...of }: RecordEvaluationEndInput): Promise<void> {
      await jobs.advance(runId, { status: 'cancelled' }, attemptOf(of));
    },
  };
}

const attemptOf = ({ attempt, startId }: AttemptOfJob): AttemptOfJob => ({ attempt, startId });

/** A run that was begun before a release is not judged half by one rubric and half by another. */
function refuseOlderRubric({ rubricVersion: begun }: RunTerms): void {
  if (begun === rubricVersion) return;
  throw appError('eval_incomplete', {
    detail: `It was begun by the rubric ${begun}; now it is ${rubricVersion}. Ask anew.`,
  });
}

function gone(): AppError {
  return appError('version_not_found', { detail: 'What is evaluated was deleted meanwhile.' });
}
