import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import type {
  AnswerCaseInput,
  EvaluationInput,
  EvaluationPlan,
  EvaluationStepsResult,
  RecordEvaluationEndInput,
  RecordEvaluationFailureInput,
  RunJudgeCallInput,
  ScoreEvaluationInput,
} from '#src/contracts/evaluation.ts';
import type { JobAttempt } from '#src/contracts/workflow-runs.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { modelCostUsd } from '#src/domain/agents/prices.ts';
import { neutralizeRoleMarkers } from '#src/domain/chat/context-blocks.ts';
import { planContextWindow } from '#src/domain/chat/context-window.ts';
import {
  type DocumentsOfReplies,
  type JudgeTokenUsage,
  judgeCallName,
  nameOfGeneratedReply,
  zeroJudgeTokenUsage,
} from '#src/domain/judging/judgement.ts';
import { evaluationOutcomeOf, namesOfFailedJudgeCalls } from '#src/domain/judging/outcome.ts';
import { hasReferenceAnswer, judgeRubricVersion } from '#src/domain/judging/rubric.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import { AppError, appError } from '#src/errors.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { ChatModel, ModelCallLimiter, ModelMessage, ModelUsage } from '#src/ports/models.ts';
import {
  type EvaluationRun,
  type EvaluationSpecificationWithoutCases,
  evalScoresOfEvaluationRun,
} from './evaluations.model.ts';
import { createEvaluationsRepository, type EvaluationsRepository } from './evaluations.repository.ts';
import { type EvaluationJudge, judgementCacheKey } from './judge.ts';
import { type CaseQuestion, questionOf, runTexts, taskOf } from './run-texts.ts';

const MAX_FAILURES = 5;
/** An answer or verdict counts as failed after its provider has responded with `Retry-After` for this long. */
const MAX_PAUSED_SECONDS = 3_600;

/** Evaluations call a local model one at a time, because it serves one request at a time and chats need it too. */
const LOCAL_CALLS_AT_ONCE = 1;

/** Upper bound of the tokens that a provider's chat template adds to a message. */
const MESSAGE_OVERHEAD_TOKENS = 8;

const cachedCall: JudgeTokenUsage = { ...zeroJudgeTokenUsage, calls: 1, cached: 1 };

/** A call of the model for the reply to a case. `finish` gives the reply as a user would read it. */
type PreparedReply = {
  messages: ModelMessage[];
  maxTokens: number;
  /** The passages in the prompt; null for a reply without documents. */
  passages: readonly { documentName: string; pageNumber: number; content: string }[] | null;
  finish(reply: string): Promise<string>;
};

/** Throws `context_too_long` if the question does not fit, `service_unavailable` if no search works. */
export type CaseReplyPreparer = (
  actor: Actor,
  question: Pick<CaseQuestion, 'persona' | 'input' | 'model' | 'maxTokens'>,
  signal: AbortSignal,
) => Promise<PreparedReply>;

export type EvaluationStepsService = ReturnType<typeof createEvaluationStepsService>;

/** The steps of an evaluation run, one per Temporal activity. Stored answers and verdicts are reused. */
export function createEvaluationStepsService(deps: {
  db: Knex;
  chatModel: Pick<ChatModel, 'complete'>;
  limiter: ModelCallLimiter;
  createJudge: (chatModel: Pick<ChatModel, 'complete'>) => EvaluationJudge;
  models: Pick<ModelsService, 'find' | 'priceOf' | 'contextWindow' | 'answerTimeoutMs'>;
  tokens: TokenCounter;
  findActor: (userId: string) => Promise<Actor | null>;
  prepareReply: CaseReplyPreparer;
  jobs: Pick<JobsService, 'advance' | 'advanceWithin'>;
}) {
  const { db, limiter, models, tokens, jobs } = deps;
  const repository = createEvaluationsRepository(db);

  async function requireRun(of: EvaluationInput): Promise<EvaluationRun> {
    const run = await repository.findRun(of);
    if (run === undefined) throw runDeleted();
    refuseOlderRubric(run.specification);
    return run;
  }

  async function requireTerms(of: EvaluationInput): Promise<EvaluationSpecificationWithoutCases> {
    const terms = await repository.findTerms(of);
    if (terms === undefined) throw runDeleted();
    refuseOlderRubric(terms);
    return terms;
  }

  /**
   * Wraps the chat model so that concurrent calls are limited per organization and model, across all processes.
   * @param usage the tokens of each successful call are added to it
   */
  const limitedModel = (orgId: string, usage: ModelUsage): Pick<ChatModel, 'complete'> => ({
    complete: async (request) => {
      const { model, signal } = request;
      const isLocal = (await models.find(model))?.isLocal ?? false;
      const of = { orgId, model, ...(isLocal && { atOnce: LOCAL_CALLS_AT_ONCE }) };
      const reply = await limiter.run(of, () => deps.chatModel.complete(request), signal);
      usage.inputTokens += reply.usage.inputTokens;
      usage.cachedInputTokens += reply.usage.cachedInputTokens;
      usage.completionTokens += reply.usage.completionTokens;
      return reply;
    },
  });

  async function spendingOf(model: string, usage: ModelUsage): Promise<JudgeTokenUsage> {
    const { inputTokens, completionTokens } = usage;
    const price = await models.priceOf(model);
    const cost = price === null ? 0 : modelCostUsd(price, usage);
    return { calls: 1, cached: 0, inputTokens, completionTokens, costUsd: cost };
  }

  /**
   * Records in an evaluation run that an answer or verdict is stored. One transaction locks the stored row and links it
   * to the run, so that the row cannot be deleted in between.
   * @param lockResult finds or inserts the stored row and locks it against deletion
   * @returns false if `lockResult` found no row
   */
  async function linkResult(
    of: EvaluationInput,
    unit: string,
    cacheKey: Buffer,
    lockResult: (repository: EvaluationsRepository) => Promise<boolean>,
  ): Promise<boolean> {
    return db.transaction(async (trx) => {
      const repository = createEvaluationsRepository(trx);
      const run = await repository.lockRun(of);
      if (run === undefined) throw runDeleted();
      if (!(await lockResult(repository))) return false;
      const done = await repository.linkResult(of, unit, cacheKey);
      const total = run.estimatedCalls;
      await jobs.advanceWithin(trx, of.runId, { progress: { done, total, unit: 'answers' } });
      return true;
    });
  }

  /**
   * Produces one answer or verdict of a run. Throws a transient error, so that Temporal retries the activity. A
   * permanent error, or one transient error too many, is returned and fails only this answer or verdict.
   */
  async function runUnit(
    { unit, model, ...of }: EvaluationInput & { unit: string; model: string },
    signal: AbortSignal,
    work: (chatModel: Pick<ChatModel, 'complete'>) => Promise<'found' | 'made'>,
  ): Promise<EvaluationStepsResult> {
    const usage: ModelUsage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };
    try {
      const isFound = (await work(limitedModel(of.orgId, usage))) === 'found';
      return { spent: isFound ? cachedCall : await spendingOf(model, usage), failed: [] };
    } catch (error) {
      if (signal.aborted || !(error instanceof AppError) || error.code === 'version_not_found') throw error;
      if (error.errorClass === 'transient' && !(await hasFailedTooOften(of, unit, error))) throw error;
      return { spent: { ...(await spendingOf(model, usage)), calls: 0 }, failed: [{ unit, code: error.code }] };
    }
  }

  async function hasFailedTooOften(of: EvaluationInput, unit: string, error: AppError): Promise<boolean> {
    if (error.retryAfterSeconds === undefined) return ((await repository.countFailure(of, unit)) ?? 0) >= MAX_FAILURES;
    return ((await repository.countPause(of, unit)) ?? 0) >= MAX_PAUSED_SECONDS;
  }

  async function prepareFromDocuments(
    { userId }: DocumentsOfReplies,
    question: CaseQuestion,
    signal: AbortSignal,
  ): Promise<PreparedReply> {
    // Reads the user's rights anew, because they may have changed since the request.
    const actor = await deps.findActor(userId);
    if (actor === null) throw appError('forbidden', { detail: 'The user who asked for the evaluation was removed.' });
    return deps.prepareReply(actor, question, signal);
  }

  /** By the prompt alone, without documents. */
  async function prepareFromPrompt({ persona, input, model, maxTokens }: CaseQuestion): Promise<PreparedReply> {
    const messages: ModelMessage[] = [
      ...(persona.trim() === '' ? [] : [{ role: 'system' as const, content: persona }]),
      { role: 'user', content: neutralizeRoleMarkers(input) },
    ];
    const fixed = messages.reduce((sum, { content }) => sum + tokens.count(content) + MESSAGE_OVERHEAD_TOKENS, 0);
    const plan = planContextWindow({ window: await models.contextWindow(model), maxTokens, fixed });
    if (plan === null) {
      throw appError('context_too_long', {
        detail: 'The prompt and the golden case exceed the context window of the model.',
      });
    }
    return { messages, maxTokens: plan.maxTokens, passages: null, finish: async (reply) => reply };
  }

  return {
    /** Begins an attempt. Like every step, throws `version_not_found` if the run or its draft version was deleted. */
    async plan(of: EvaluationInput): Promise<EvaluationPlan> {
      const { specification, estimatedCalls } = await requireRun(of);
      await jobs.advance(of.runId, {
        status: 'running',
        stage: 'plan',
        progress: { done: 0, total: estimatedCalls, unit: 'answers' },
      });
      await repository.resetFailures(of);
      await jobs.advance(of.runId, { stage: 'judge' });
      return {
        rubric: specification.kind === 'evaluate' ? specification.rubric : 'plain',
        judgesPrompt: specification.kind === 'compare' || specification.judgesPrompt,
        cases: specification.cases.map(({ expected }) => hasReferenceAnswer(expected)),
        calls: estimatedCalls,
      };
    },

    async answer({ caseIndex, side, ...of }: AnswerCaseInput, signal: AbortSignal): Promise<EvaluationStepsResult> {
      const { orgId } = of;
      const terms = await requireTerms(of);
      const question = await questionOf(terms, runTexts(repository, of, terms), { caseIndex, side });
      const { model } = question;
      const unit = nameOfGeneratedReply(caseIndex, side);
      return runUnit({ ...of, unit, model }, signal, async (chatModel) => {
        const { documents } = terms;
        const prepared = await (documents === undefined
          ? prepareFromPrompt(question)
          : prepareFromDocuments(documents, question, signal));
        const cacheKey = answerKey(question, prepared.passages);
        if (await linkResult(of, unit, cacheKey, (stored) => stored.lockAnswer(orgId, cacheKey))) return 'found';
        const { messages, maxTokens } = prepared;
        const { temperature } = question;
        const timeoutMs = await models.answerTimeoutMs(model);
        const reply = await chatModel.complete({ model, messages, temperature, maxTokens, timeoutMs, signal });
        const answer = { cacheKey, model, answer: await prepared.finish(reply.text), ...reply.usage };
        await linkResult(of, unit, cacheKey, (stored) => stored.insertAnswer(orgId, answer).then(() => true));
        return 'made';
      });
    },

    async judge({ unit, ...of }: RunJudgeCallInput, signal: AbortSignal): Promise<EvaluationStepsResult> {
      const { orgId } = of;
      const terms = await requireTerms(of);
      const name = judgeCallName(unit);
      const model = terms.evaluatorModel;
      return runUnit({ ...of, unit: name, model }, signal, async (chatModel) => {
        const task = await taskOf(runTexts(repository, of, terms), unit);
        const cacheKey = judgementCacheKey(task, model);
        if (await linkResult(of, name, cacheKey, (stored) => stored.lockJudgement(orgId, cacheKey))) return 'found';
        const { judgement, usage } = await deps.createJudge(chatModel)(task, { model, signal });
        const verdict = { cacheKey, model, verdict: judgement, ...usage };
        await linkResult(of, name, cacheKey, (stored) => stored.insertJudgement(orgId, verdict).then(() => true));
        return 'made';
      });
    },

    /**
     * Stores the average scores of a run. Throws `eval_incomplete` after the commit if verdicts or answers are missing.
     */
    async score({ failed, attempt, startId, ...of }: ScoreEvaluationInput): Promise<void> {
      await jobs.advance(of.runId, { status: 'running', stage: 'score' });
      const run = await requireRun(of);
      const verdicts = await repository.listVerdicts(of);
      const answers = await repository.listAnswers(of);
      const outcome = evaluationOutcomeOf(run.specification, { verdicts, answers, failed });
      const { status, failedUnits } = outcome;
      await db.transaction(async (trx) => {
        const stored = createEvaluationsRepository(trx);
        if (run.draftId !== null) await stored.lockDraft(of.orgId, run.draftId);
        if ((await stored.lockRun(of)) === undefined) throw runDeleted();
        const scored = await stored.storeResults(of, outcome);
        if (status === 'completed') {
          await jobs.advanceWithin(trx, of.runId, { status: 'succeeded' }, { attempt, startId });
        }
        if (run.versionId === null) return;
        const parent = await stored.findParentScores(of.orgId, run.versionId);
        await stored.setVersionOutcome(
          of,
          status,
          status === 'failed' ? null : evalScoresOfEvaluationRun(scored, parent),
        );
      });
      if (status === 'completed') return;
      const detail = `Of ${run.estimatedCalls} answers of models some are missing: ${namesOfFailedJudgeCalls(failedUnits)}.`;
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

/** Depends on the passages themselves, so that a reply is reused as long as the search finds the same ones. */
function answerKey(
  { persona, input, model, temperature, maxTokens, draw }: CaseQuestion,
  passages: PreparedReply['passages'],
): Buffer {
  const found = passages?.map(({ documentName, pageNumber, content }) => [documentName, pageNumber, content]);
  const question = JSON.stringify([persona, input, model, temperature, maxTokens, draw, ...(found ? [found] : [])]);
  return createHash('sha256').update(`answer ${question}`).digest();
}

const attemptOf = ({ attempt, startId }: JobAttempt): JobAttempt => ({ attempt, startId });

/** Throws if the run was created under an older rubric, because a run must not mix verdicts of two rubrics. */
function refuseOlderRubric({ rubricVersion: versionOfRun }: EvaluationSpecificationWithoutCases): void {
  if (versionOfRun === judgeRubricVersion) return;
  throw appError('eval_incomplete', {
    detail: `The evaluation began with rubric version ${versionOfRun}; the current version is ${judgeRubricVersion}. Request a new evaluation.`,
  });
}

function runDeleted(): AppError {
  return appError('version_not_found', {
    detail: 'The evaluation run or its draft version was deleted during the evaluation.',
  });
}
