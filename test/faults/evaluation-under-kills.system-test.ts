import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { z } from 'zod';
import { comparisonResultSchema } from '#src/modules/evaluations/evaluations.schema.ts';
import { twoEvaluableVersions } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { expectInvariants, type FaultCase, startFaultCase } from '#test/support/fault-case.ts';
import { isFullRun, note } from '#test/support/fault-run.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { until } from '#test/support/until.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';

const CASES = isFullRun ? 20 : 6;
const KILLS = isFullRun ? 10 : 1;
const TIMEOUT_MS = 600_000;
/** Two prompts, and for each case two answers and four axes in both orders. */
const QUESTIONS = 2 + CASES * (2 + 8);

describe(`a comparison of ${CASES} cases whose worker is killed while it runs`, function () {
  this.timeout(TIMEOUT_MS);
  let own: FaultCase;
  const random = seeded(runSeed);
  const asked = () => own.model.requests.map(({ messages }) => JSON.stringify(messages));

  before(async () => {
    await buildWorkflowBundle();
    own = await startFaultCase({ EVAL_MODEL: 'judge', EVAL_WAIT_SECONDS: '600' });
    own.model.behave((request) => {
      const isOfBrief = JSON.stringify(request.messages.slice(-1)).indexOf('Be brief.') % 3 === 0;
      return judgeWell(() => ({ winner: isOfBrief ? 'A' : 'B' }), delay(100))(request);
    });
  });
  after(() => own.close());

  async function compare(member: Member): Promise<z.infer<typeof comparisonResultSchema>> {
    const cases = Array.from({ length: CASES }, (_, index) => ({ input: `What is fee ${index}?` }));
    const body = { ...(await twoEvaluableVersions(member))[0], cases };
    return comparisonResultSchema.parse((await member.post('/agent-eval/compare', body, 200)).body);
  }

  async function countKept(): Promise<number> {
    const { db } = own.stack.container;
    const tables = ['judgements', 'generatedAnswers'].map((table) => db(table).count<{ count: number }[]>());
    return (await Promise.all(tables)).reduce((sum, [row]) => sum + (row?.count ?? 0), 0);
  }

  it('asks again for what was under way at most, and comes to the same', async () => {
    const moments = Array.from({ length: KILLS }, () => 1 + Math.floor(random.next() * (QUESTIONS - 1)));
    let worker = await own.startWorker();
    const comparing = compare(own.member);
    comparing.catch(() => undefined);
    let lost = 0;
    for (const moment of moments.toSorted((a, b) => a - b)) {
      await until(`${moment} questions are asked`, async () => new Set(asked()).size >= moment);
      await worker.kill();
      lost += asked().length - (await countKept());
      worker = await own.startWorker();
    }
    const disturbed = await comparing;
    const repeated = asked().length - new Set(asked()).size;
    expect(new Set(asked()).size).equal(QUESTIONS);
    expect(repeated).at.most(lost);
    note(`${KILLS} kills: ${repeated} of ${QUESTIONS} questions were asked twice`);

    const undisturbed = await compare(await own.stack.signUp());
    expect(disturbed.cases).deep.equal(undisturbed.cases);
    expect(disturbed.summary).deep.equal(undisturbed.summary);
    await expectInvariants(own.stack);
  });
});
