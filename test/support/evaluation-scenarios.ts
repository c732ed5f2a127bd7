import { expect } from 'chai';
import { anEvaluableVersion, startPath } from './builders.ts';
import type { FaultCase, Scenario } from './fault-case.ts';
import { judgeWell } from './scripted-judge.ts';
import { until } from './until.ts';
import { type JobView, untilJob } from './until-job.ts';

const goldenCases = [
  { id: 'fee', prompt: 'What is the fee?', reference_answer: 'One percent.' },
  { id: 'term', prompt: 'How long?', reference_answer: '' },
];

/** @returns its job */
async function start({ member, stack }: FaultCase, fields: object): Promise<string> {
  const of = await anEvaluableVersion(member, fields);
  await member.post(startPath(of), { run_golden: true }, 200, { prefer: 'wait=0' });
  const { evalRunId } = await stack.container.db('draftVersions').where({ id: of.version_id }).first('evalRunId');
  return evalRunId;
}

/** Whatever dies, no model is asked again for what it has answered before: what was under way may be. */
export const evaluateGolden: Scenario = {
  settings: { EVAL_MODEL: 'judge' },
  drive: async (own) => {
    own.model.behave(judgeWell());
    const jobId = await start(own, { golden_cases: goldenCases });
    await untilJob(own.member, jobId, 'succeeded');
    const questions = own.model.requests.map(({ messages }) => JSON.stringify(messages));
    expect(new Set(questions).size).equal(1 + 2 * goldenCases.length);
    own.model.calls.length = 0;
    return { documentId: null, jobId };
  },
};

export const failEvaluation: Scenario = {
  settings: { EVAL_MODEL: 'judge' },
  drive: async (own) => {
    own.model.behave(() => ({ kind: 'answer', text: 'No verdict.' }));
    const jobId = await start(own, {});
    await untilJob(own.member, jobId, 'failed');
    own.model.calls.length = 0;
    return { documentId: null, jobId };
  },
};

export const cancelEvaluation: Scenario = {
  settings: { EVAL_MODEL: 'judge' },
  faults: 'judgeUnit:before:hang',
  drive: async (own) => {
    const jobId = await start(own, {});
    const isJudging = async () => {
      const { body } = await own.member.get(`/jobs/${jobId}`, 200);
      return (body as JobView).stage === 'judge';
    };
    await until('it judges', isJudging);
    await own.stack.container.orchestrator.cancel(jobId);
    await untilJob(own.member, jobId, 'cancelled');
    return { documentId: null, jobId };
  },
};
