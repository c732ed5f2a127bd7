import { expect } from 'chai';
import { evaluationResultSchema } from '#src/modules/evaluations/evaluations.schema.ts';
import { twoEvaluableVersions } from '#test/support/builders.ts';
import { expectInvariants, type FaultCase, startFaultCase } from '#test/support/fault-case.ts';
import { isFullRun, note } from '#test/support/fault-run.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';

const STORM_MS = isFullRun ? 60_000 : 6_000;
const CASES = isFullRun ? 20 : 6;
/** For the prompt, and for each case an answer and four axes, three times each. */
const QUESTIONS = 18 + CASES * (1 + 12);
/** What was sent before the refusal was read, by a worker that may have to wait for its turn. */
const UNDER_WAY_MS = 1_000;

describe('F9: a judge that is busy', function () {
  this.timeout(300_000);
  let own: FaultCase;
  before(async () => {
    own = await startFaultCase({ EVAL_MODEL: 'judge' });
  });
  after(() => own.close());

  it('is not called before the time that it names, nor much more often than without that', async () => {
    const random = seeded(runSeed);
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
    const cases = Array.from({ length: CASES }, (_, index) => ({ input: `What is fee ${index}?` }));
    const reply = await own.member.post(
      '/agent-eval/evaluate',
      { ...(await twoEvaluableVersions(own.member))[0], cases },
      200,
    );
    expect(evaluationResultSchema.parse(reply.body).cases).length(CASES);
    expect(early.filter((ms) => ms > 5)).deep.equal([]);
    note(`${calls} calls for ${QUESTIONS} answers`);
    expect(calls).at.most(QUESTIONS * 1.2);
    await expectInvariants(own.stack);
  });
});
