import { expect } from 'chai';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import type { JudgeCallInput } from '#src/domain/judging/judgement.ts';
import { appError } from '#src/errors.ts';
import { createEvaluationJudge } from '#src/modules/evaluations/judge.ts';
import type { ChatModel, ModelRequest } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { anchoredTask, pairTask, promptTask, replyTask, verdictFor } from '#test/support/scripted-judge.ts';

const counter = createTokenCounter();
const wellFormed: SaidByJudge = (request) => verdictFor(request);

function judgeThat(say: SaidByJudge, limits: { window?: number; budget?: number } = {}) {
  const chatModel = fakeJudgeModel(say);
  const models = {
    contextWindow: async () => limits.window ?? null,
    contextBudget: async () => limits.budget ?? null,
    answerTimeoutMs: async () => 5_000,
  };
  const judge = createEvaluationJudge({ chatModel, models, counter, nonceKey: Buffer.alloc(32, 7) });
  const { signal } = new AbortController();
  return { requests: chatModel.requests, ask: (task: JudgeCallInput) => judge(task, { model: 'm', signal }) };
}

const promptOf = ({ messages }: ModelRequest) => messages.map(({ content }) => content).join('\n');
const distinct = (values: readonly unknown[]) => new Set(values).size;

describe('the judging model call', () => {
  it('is made once, with temperature 0, its own seed and nonce, and a JSON schema for the answer', async () => {
    const { ask, requests } = judgeThat(wellFormed);
    const { judgement, usage, calls } = await ask(replyTask());
    expect(judgement.mode === 'plain' && judgement.scores.map(({ score }) => score)).deep.equal([3, 3, 3, 3]);
    expect(usage).deep.equal({ inputTokens: 100, cachedInputTokens: 10, completionTokens: 20 });
    expect(calls).equal(1);
    expect(requests[0]).include({ model: 'm', temperature: 0, timeoutMs: 5_000 }).and.have.property('seed');
    await ask(replyTask({ reply: 'Another.' }));
    expect(distinct(requests.map((request) => /<<([a-z0-9]{16})>>/.exec(promptOf(request))?.[1]))).equal(2);
  });

  it('is repeated for samples with equal messages, temperature 0.3 and different seeds', async () => {
    const { ask, requests } = judgeThat(wellFormed);
    for (const sample of [1, 2, 3]) await ask(anchoredTask({}, sample));
    expect([distinct(requests.map(promptOf)), distinct(requests.map(({ seed }) => seed))]).deep.equal([1, 3]);
    expect(requests[0]?.temperature).equal(0.3);
  });

  it('asks for a repair after an unusable answer, then is repeated with another seed', async () => {
    const { ask, requests } = judgeThat((request, call) => {
      const [, nonce = ''] = /<<([a-z0-9]{16})>>/.exec(promptOf(request)) ?? [];
      return call < 3 ? `A good reply. <<${nonce}>> Give 5.` : wellFormed(request, call);
    });
    const { calls, usage } = await ask(anchoredTask());
    expect([calls, usage.inputTokens]).deep.equal([3, 300]);
    expect(requests[1] && promptOf(requests[1]))
      .include('A good reply.')
      .and.include('cannot be used');
    expect(requests[1]?.messages[0]).deep.equal(requests[0]?.messages[0]);
    expect(requests[2]?.messages).deep.equal(requests[0]?.messages);
    expect(distinct(requests.map(({ seed }) => seed))).equal(3);
    const rambling = judgeThat((request, call) => (call < 2 ? 'x'.repeat(9_000) : wellFormed(request, call)));
    await rambling.ask(pairTask('a', 'b'));
    expect(rambling.requests[0]).include({ temperature: 0 });
    expect(rambling.requests[1] && promptOf(rambling.requests[1]))
      .include('x'.repeat(1_000))
      .not.include('x'.repeat(1_001));
  });

  it('fails with judge_response_invalid after three unusable answers', async () => {
    for (const said of [
      ...['Five of five!', '{"rationale":"x","sco'],
      ...['{"rationale":"x","weakness":"y","severity":"cosmetic","score":7}', '{"winner":"version"}'],
    ]) {
      const { ask, requests } = judgeThat(() => said);
      for (const task of [anchoredTask(), replyTask(), pairTask('a', 'b')]) {
        expect(await appErrorCode(ask(task)), said).equal('judge_response_invalid');
      }
      expect(requests).length(9);
    }
  });

  it('treats an empty answer as unusable, and rethrows other errors of the model', async () => {
    const { ask, requests } = judgeThat((request, call) => {
      if (call === 1) throw appError('model_response_invalid');
      return wellFormed(request, call);
    });
    expect(await ask(anchoredTask())).include({ calls: 2 });
    expect(requests[1]?.messages).deep.equal(requests[0]?.messages);
    const busy = judgeThat(() => {
      throw appError('model_unavailable', { retryAfterSeconds: 3 });
    });
    expect(await appErrorCode(busy.ask(anchoredTask()))).equal('model_unavailable');
    expect(busy.requests).length(1);
  });

  it('is omitted for blank texts, which score 0, and for equal replies, which are a tie', async () => {
    const { ask, requests } = judgeThat(wellFormed);
    const blank = (await ask(promptTask(' \n'))).judgement;
    expect(blank.mode === 'plain' && blank.scores.map(({ score }) => score)).deep.equal([0, 0, 0, 0, 0, 0]);
    expect((await ask(anchoredTask({ reply: '' }))).judgement).include({ score: 0, severity: 'fundamental' });
    expect((await ask(pairTask('same', 'same'))).judgement).include({ winner: 'tie' });
    expect(requests).length(0);
    await ask(pairTask('same', 'same', { b: { persona: 'Another.', reply: 'same' } }));
    expect(requests).length(1);
  });

  it('gets texts shortened to token budget and context window, or fails if the window is too small', async () => {
    const long = 'The fee depends on the term of the loan. '.repeat(2_000);
    const budgeted = judgeThat(wellFormed, { window: 8_192, budget: 1_000 });
    await budgeted.ask(replyTask({ reply: long }));
    await budgeted.ask(pairTask(long, `${long}!`));
    const tokens = budgeted.requests.map((request) => counter.count(promptOf(request)));
    expect(tokens[0]).within(900, 1_700);
    expect(tokens[1]).within(1_800, 2_700);
    const windowed = judgeThat(wellFormed, { window: 4_096 });
    await windowed.ask(replyTask({ reply: long }));
    const [asked] = windowed.requests.map((request) => counter.count(promptOf(request)) + request.maxTokens);
    expect(asked).within(3_000, 4_096);
    for (const window of [600, 2_048, 2_600]) {
      const { ask, requests } = judgeThat(wellFormed, { window });
      expect(await appErrorCode(ask(promptTask(long.slice(0, 8_200)))), `${window}`).equal('context_too_long');
      expect(requests).length(0);
    }
  });
});

type SaidByJudge = (request: ModelRequest, call: number) => string;

/** A judge with scripted answers; `requests` are the requests that it received, oldest first. */
function fakeJudgeModel(say: SaidByJudge): Pick<ChatModel, 'complete'> & { requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  return {
    requests,
    complete: async (request) => {
      requests.push(request);
      const usage = { inputTokens: 100, cachedInputTokens: 10, completionTokens: 20 };
      return { text: say(request, requests.length), model: request.model, usage };
    },
  };
}
