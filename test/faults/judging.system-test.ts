import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { comparisonResultSchema, evaluationResultSchema } from '#src/modules/evaluations/evaluations.schema.ts';
import { twoEvaluableVersions } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { expectInvariants, type FaultCase, startFaultCase } from '#test/support/fault-case.ts';
import { isFullRun, note } from '#test/support/fault-run.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { until } from '#test/support/until.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';

const STORM_MS = isFullRun ? 60_000 : 6_000;
const CASES = isFullRun ? 20 : 6;
const KILLS = isFullRun ? 10 : 1;
/** What was sent before the refusal was read, by a worker that may have to wait for its turn. */
const UNDER_WAY_MS = 1_000;

describe('judge models under faults:', function () {
  this.timeout(600_000);
  const random = seeded(runSeed);
  let own: FaultCase;
  beforeEach(async () => {
    await buildWorkflowBundle();
    own = await startFaultCase({ EVAL_MODEL: 'judge', EVAL_WAIT_SECONDS: '600' });
  });
  afterEach(() => own.close());

  /** Evaluates or compares two versions on all cases. */
  async function judge(what: 'evaluate' | 'compare', member: Member = own.member): Promise<unknown> {
    const cases = Array.from({ length: CASES }, (_, index) => ({ input: `What is fee ${index}?` }));
    const body = { ...(await twoEvaluableVersions(member))[0], cases };
    return (await member.post(`/agent-eval/${what}`, body, 200)).body;
  }

  it('F9: a judge model that is busy is called neither before its Retry-After time nor much more often than usual', async () => {
    // For the prompt, and for each case an answer and four axes, three times each.
    const questions = 18 + CASES * (1 + 12);
    const began = performance.now();
    let calls = 0;
    /** By model: the judge and the one that answers cases have limits of their own. */
    const pauses = new Map<string, { begin: number; end: number }>();
    const early: number[] = [];
    own.model.behave((request) => {
      const now = performance.now();
      const pause = pauses.get(request.model) ?? { begin: 0, end: 0 };
      if (now < pause.end && now > pause.begin + UNDER_WAY_MS) early.push(pause.end - now);
      calls += 1;
      if (now - began > STORM_MS || random.next() > 0.8) return judgeWell()(request);
      const retryAfterSeconds = isFullRun ? 2 + Math.floor(random.next() * 9) : 3;
      const end = now + retryAfterSeconds * 1_000;
      pauses.set(request.model, now < pause.end ? { ...pause, end: Math.max(pause.end, end) } : { begin: now, end });
      return { kind: 'status', status: 429, retryAfterSeconds };
    });
    await own.startWorker();
    expect(evaluationResultSchema.parse(await judge('evaluate')).cases).length(CASES);
    expect(early.filter((ms) => ms > 5)).deep.equal([]);
    note(`${calls} calls for ${questions} answers`);
    expect(calls).at.most(questions * 1.2);
    await expectInvariants(own.stack);
  });

  it('judging: a comparison whose worker is killed repeats at most the judge calls that were in flight', async () => {
    // Two prompts, and for each case two answers and four axes in both orders.
    const questions = 2 + CASES * (2 + 8);
    const asked = () => own.model.requests.map(({ messages }) => JSON.stringify(messages));
    const { db } = own.stack.container;
    const countKept = async () => [...(await db('judgements')), ...(await db('generatedAnswers'))].length;
    own.model.behave((request) => {
      const isOfBrief = JSON.stringify(request.messages.slice(-1)).indexOf('Be brief.') % 3 === 0;
      return judgeWell(() => ({ winner: isOfBrief ? 'A' : 'B' }), delay(100))(request);
    });
    const moments = Array.from({ length: KILLS }, () => 1 + Math.floor(random.next() * (questions - 1)));
    let worker = await own.startWorker();
    const comparing = judge('compare');
    comparing.catch(() => undefined);
    let lost = 0;
    for (const moment of moments.toSorted((a, b) => a - b)) {
      await until(`${moment} questions are asked`, async () => new Set(asked()).size >= moment);
      await worker.kill();
      lost += asked().length - (await countKept());
      worker = await own.startWorker();
    }
    const disturbed = comparisonResultSchema.parse(await comparing);
    const repeated = asked().length - new Set(asked()).size;
    expect(new Set(asked()).size).equal(questions);
    expect(repeated).at.most(lost);
    note(`${KILLS} kills: ${repeated} of ${questions} questions were asked twice`);

    const undisturbed = comparisonResultSchema.parse(await judge('compare', await own.stack.signUp()));
    expect(disturbed.cases).deep.equal(undisturbed.cases);
    expect(disturbed.summary).deep.equal(undisturbed.summary);
    await expectInvariants(own.stack);
  });
});
