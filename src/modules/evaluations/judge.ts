import { createHash, createHmac, randomBytes } from 'node:crypto';
import { type JudgeCallInput, type Judgement, verdictCacheKeyText } from '#src/domain/judging/judgement.ts';
import { fitTextsForJudge, type TextForJudge, textsForJudge } from '#src/domain/judging/material.ts';
import { judgeSamplingOptions } from '#src/domain/judging/rubric.ts';
import {
  buildJudgeMessages,
  buildJudgeRepairMessages,
  type JudgeMessage,
  judgeVerdictSchema,
  maxJudgeAnswerTokens,
  parseJudgeVerdict,
  verdictWithoutJudge,
} from '#src/domain/judging/verdict.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { ChatModel, ModelUsage } from '#src/ports/models.ts';

/**
 * A verdict with the token usage and the number of its model calls: at most three, and none if a rule decides without
 * the model.
 */
type JudgeAnswer = { judgement: Judgement; usage: ModelUsage; calls: number };

/**
 * Asks the judge model for one verdict. Throws `judge_response_invalid` if no answer is usable even after a repair
 * request and a repeated question; an unusable answer never becomes a score. Throws `context_too_long` if too little of
 * the judged texts fits into the context window, and the errors of `ChatModel`.
 */
export type EvaluationJudge = (
  task: JudgeCallInput,
  options: { model: string; signal: AbortSignal },
) => Promise<JudgeAnswer>;

/** Added to the judge's output limit, because the thinking tokens of reasoning models count against it too. */
const thinkingTokens = 2_000;
/** Tokens reserved for a repair request, which quotes the beginning of the unusable answer. */
const repairTokens = 400;
/**
 * Share of the context window that a judge request may fill: the provider's tokenizer may count more tokens than ours.
 */
const usableShareOfWindow = 0.95;
/** Model calls per verdict: the question, a repair request, and the question again with another seed. */
const maxCalls = 3;

type Question = { messages: JudgeMessage[]; nonce: string; maxTokens: number };

export function createEvaluationJudge(deps: {
  chatModel: Pick<ChatModel, 'complete'>;
  models: Pick<ModelsService, 'contextWindow' | 'contextBudget' | 'answerTimeoutMs'>;
  counter: TokenCounter;
  /** HMAC key for the delimiters around a judged text, so that the author of the text cannot forge a delimiter. */
  nonceKey?: Buffer;
}): EvaluationJudge {
  const { chatModel, models, counter, nonceKey = randomBytes(32) } = deps;

  /** Delimiter nonce, derived from the judged texts only, so that providers' prompt caches serve all samples. */
  function nonceOf(exhibits: readonly TextForJudge[]): string {
    return createHmac('sha256', nonceKey).update(JSON.stringify(exhibits)).digest('hex').slice(0, 16);
  }

  /** Builds the judge's messages, shortening texts to the context window or a slow model's token budget. */
  async function questionFor(task: JudgeCallInput, model: string): Promise<Question> {
    const [window, budget] = await Promise.all([models.contextWindow(model), models.contextBudget(model)]);
    const exhibits = textsForJudge(task);
    const nonce = nonceOf(exhibits);
    const tokensOf = (messages: readonly JudgeMessage[]) =>
      counter.count(messages.map(({ content }) => content).join('\n'));
    const withoutTexts = exhibits.map((exhibit) => ({ ...exhibit, text: '' }));
    const room = window === null ? Number.POSITIVE_INFINITY : Math.floor(window * usableShareOfWindow) - repairTokens;
    const readable = Math.min(
      room - tokensOf(buildJudgeMessages(task, withoutTexts, nonce)) - maxJudgeAnswerTokens(task),
      budget === null ? Number.POSITIVE_INFINITY : budget * (task.mode === 'pairwise' ? 2 : 1),
    );
    const shown = readable === Number.POSITIVE_INFINITY ? exhibits : fitTextsForJudge(exhibits, readable, counter);
    if (shown === null) {
      throw appError('context_too_long', {
        detail: `The context window of the judge model ${model} is too small for these texts.`,
      });
    }
    const messages = buildJudgeMessages(task, shown, nonce);
    const thinking = Math.min(thinkingTokens, room - tokensOf(messages) - maxJudgeAnswerTokens(task));
    return { messages, nonce, maxTokens: maxJudgeAnswerTokens(task) + Math.max(0, thinking) };
  }

  return async (task, { model, signal }) => {
    const usage: ModelUsage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };
    const settled = verdictWithoutJudge(task);
    if (settled !== null) return { judgement: settled, usage, calls: 0 };
    const { nonce, maxTokens, messages: question } = await questionFor(task, model);
    const timeoutMs = await models.answerTimeoutMs(model);

    async function ask(messages: JudgeMessage[], seed: number): Promise<string | null> {
      try {
        const reply = await chatModel.complete({
          model,
          messages,
          temperature: judgeSamplingOptions[task.mode].temperature,
          seed,
          maxTokens,
          responseSchema: judgeVerdictSchema(task),
          timeoutMs,
          signal,
        });
        usage.inputTokens += reply.usage.inputTokens;
        usage.cachedInputTokens += reply.usage.cachedInputTokens;
        usage.completionTokens += reply.usage.completionTokens;
        return reply.text;
      } catch (error) {
        if (error instanceof AppError && error.code === 'model_response_invalid') return null;
        throw error;
      }
    }

    let messages = question;
    let problem = '';
    for (let calls = 1; calls <= maxCalls; calls++) {
      const answer = await ask(messages, firstSeed(task) + calls);
      const reading = answer === null ? { problem: 'the reply is empty' } : parseJudgeVerdict(task, answer);
      if ('judgement' in reading) return { judgement: reading.judgement, usage, calls };
      problem = reading.problem;
      const isWorthRepair = calls === 1 && answer !== null;
      messages = isWorthRepair ? buildJudgeRepairMessages(question, answer, { problem, nonce }) : question;
    }
    throw appError('judge_response_invalid', {
      detail: `The judge model ${model} returned no usable verdict: ${problem}.`,
    });
  };
}

/** Each sample of a verdict has its own range of seeds, because its repeated calls use consecutive seeds. */
function firstSeed(task: JudgeCallInput): number {
  return task.mode === 'anchored' ? task.sample * 10 : 0;
}

export function judgementCacheKey(task: JudgeCallInput, evaluatorModel: string): Buffer {
  return createHash('sha256').update(verdictCacheKeyText(task, evaluatorModel)).digest();
}
