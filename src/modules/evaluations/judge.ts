import { createHmac, randomBytes } from 'node:crypto';
import type { Judgement, JudgeTask } from '#src/domain/judging/judgement.ts';
import { type Exhibit, exhibitsOf, fitExhibits } from '#src/domain/judging/material.ts';
import { type JudgeMessage, judgeMessages, repairMessages } from '#src/domain/judging/prompts.ts';
import { sampling } from '#src/domain/judging/rubric.ts';
import { answerTokens, readVerdict, settledByRule, verdictSchema } from '#src/domain/judging/verdict.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { ChatModel, ModelUsage } from '#src/ports/models.ts';

/** `usage` is that of all calls, of which there are at most three, and none for what a rule settles. */
export type JudgeAnswer = { judgement: Judgement; usage: ModelUsage; calls: number };

/**
 * Has one unit judged. Throws `judge_response_invalid` when the judge gives no verdict, also when it is told what was
 * wrong and when it is asked anew: that is never a score. Throws `context_too_long` when the judge could not read enough
 * of the texts. Errors of the call itself are those of `ChatModel`.
 */
export type Judge = (task: JudgeTask, options: { model: string; signal: AbortSignal }) => Promise<JudgeAnswer>;

/** Beyond what an answer needs: models that think first are stopped by the same limit. */
const thinkingTokens = 2_000;
/** What is said of an answer that cannot be used, with the beginning of that answer. */
const repairTokens = 400;
/** The provider's tokenizer counts otherwise than ours. */
const sureShare = 0.95;
/** The question, the request for a repair, and the question anew: with a seed of its own, or the answer is the same. */
const maxCalls = 3;

type Question = { messages: JudgeMessage[]; nonce: string; maxTokens: number };

export function createJudge(deps: {
  chatModel: Pick<ChatModel, 'complete'>;
  models: Pick<ModelsService, 'contextWindow' | 'contextBudget' | 'answerTimeoutMs'>;
  counter: TokenCounter;
  /** Of this process: with it nobody outside can compute the marks around a text. */
  nonceKey?: Buffer;
}): Judge {
  const { chatModel, models, counter, nonceKey = randomBytes(32) } = deps;

  /** The same for the same texts, so that a provider's prompt cache serves the samples after the first. */
  function nonceOf(exhibits: readonly Exhibit[]): string {
    return createHmac('sha256', nonceKey).update(JSON.stringify(exhibits)).digest('hex').slice(0, 16);
  }

  /**
   * The question, within the window of the model. A model that reads slowly has a budget for what it is to read: it
   * counts once for each text that is graded.
   */
  async function questionFor(task: JudgeTask, model: string): Promise<Question> {
    const [window, budget] = await Promise.all([models.contextWindow(model), models.contextBudget(model)]);
    const exhibits = exhibitsOf(task);
    const nonce = nonceOf(exhibits);
    const tokensOf = (messages: readonly JudgeMessage[]) =>
      counter.count(messages.map(({ content }) => content).join('\n'));
    const withoutTexts = exhibits.map((exhibit) => ({ ...exhibit, text: '' }));
    const room = window === null ? Number.POSITIVE_INFINITY : Math.floor(window * sureShare) - repairTokens;
    const readable = Math.min(
      room - tokensOf(judgeMessages(task, withoutTexts, nonce)) - answerTokens(task),
      budget === null ? Number.POSITIVE_INFINITY : budget * (task.mode === 'pairwise' ? 2 : 1),
    );
    const shown = readable === Number.POSITIVE_INFINITY ? exhibits : fitExhibits(exhibits, readable, counter);
    if (shown === null) {
      throw appError('context_too_long', { detail: `The window of ${model} is too small to judge these texts.` });
    }
    const messages = judgeMessages(task, shown, nonce);
    const thinking = Math.min(thinkingTokens, room - tokensOf(messages) - answerTokens(task));
    return { messages, nonce, maxTokens: answerTokens(task) + Math.max(0, thinking) };
  }

  return async (task, { model, signal }) => {
    const usage: ModelUsage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };
    const settled = settledByRule(task);
    if (settled !== null) return { judgement: settled, usage, calls: 0 };
    const { nonce, maxTokens, messages: question } = await questionFor(task, model);
    const timeoutMs = await models.answerTimeoutMs(model);

    /** What the judge says; null for an answer that cannot even be read. */
    async function ask(messages: JudgeMessage[], seed: number): Promise<string | null> {
      try {
        const reply = await chatModel.complete({
          model,
          messages,
          temperature: sampling[task.mode].temperature,
          seed,
          maxTokens,
          responseSchema: verdictSchema(task),
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
      const reading = answer === null ? { problem: 'it is empty' } : readVerdict(task, answer);
      if ('judgement' in reading) return { judgement: reading.judgement, usage, calls };
      problem = reading.problem;
      const isWorthRepair = calls === 1 && answer !== null;
      messages = isWorthRepair ? repairMessages(question, answer, { problem, nonce }) : question;
    }
    throw appError('judge_response_invalid', { detail: `The judge ${model} gave no verdict: ${problem}.` });
  };
}

/** Samples differ by it. */
function firstSeed(task: JudgeTask): number {
  return task.mode === 'anchored' ? task.sample * 10 : 0;
}
