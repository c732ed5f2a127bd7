import { Context } from '@temporalio/activity';
import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { EvaluationActivities } from '#activities/evaluation.ts';
import { heartbeating } from '#activities/heartbeating.ts';
import type {
  AnswerCaseInput,
  EvaluationProgress,
  JudgeUnitInput,
  ScoreEvaluationInput,
} from '#src/contracts/evaluation.ts';
import { stageQueryName } from '#src/contracts/messages.ts';
import { caseWorkflowId } from '#src/contracts/workflow-ids.ts';
import { unitName } from '#src/domain/judging/units.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { oneCall, stubEvaluation } from '#test/support/stub-evaluation.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

describe('evaluateVersion and compareVersions', function () {
  this.timeout(60_000);
  let temporal: TestWorkers;
  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  async function evaluate(
    activities: EvaluationActivities,
    use: (run: WorkflowHandle, runId: string) => Promise<void>,
    workflow = 'evaluateVersion',
  ): Promise<void> {
    const workflowId = `test-${uuidv7()}`;
    await temporal.withWorker(activities, async (taskQueue) => {
      const run = await temporal.client.workflow.start(workflow, {
        workflowId,
        taskQueue,
        args: [{ orgId: 'org', runId: workflowId }],
        memo: { attempt: 2 },
        typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'evaluate' }),
      });
      await use(run, workflowId);
    });
  }
  const nameOf = ({ name, input }: { name: string; input: unknown }) =>
    name === 'judgeUnit' ? unitName((input as JudgeUnitInput).unit) : name;

  it('judges the prompt beside the cases, each of which is answered before it is judged', async () => {
    const { activities, calls } = stubEvaluation();
    await evaluate(activities, async (run, runId) => {
      expect(await run.result()).deep.equal({
        spent: { calls: 5, cached: 0, inputTokens: 50, completionTokens: 10, costUsd: 2.5 },
        failed: [],
      });
      const names = calls.map(nameOf);
      expect(names.toSorted()).deep.equal(
        ['planEvaluation', 'prompt', 'answerCase', 'answerCase', 'case 1', 'case 2', 'scoreEvaluation'].toSorted(),
      );
      for (const caseIndex of [0, 1]) {
        const answered = calls.findIndex(
          ({ name, input }) => name === 'answerCase' && (input as AnswerCaseInput).caseIndex === caseIndex,
        );
        expect(answered).below(names.indexOf(`case ${caseIndex + 1}`));
      }
      expect(calls.at(-1)).deep.equal({
        name: 'scoreEvaluation',
        input: { orgId: 'org', runId, attempt: 2, failed: [] },
      });
      expect(await attributeOf(run, 'Stage')).equal('done');
      expect(await detailsOf(run)).match(/50 tokens read, 10 written, 2\.5000 US dollars/);
      const ofCase = temporal.client.workflow.getHandle(caseWorkflowId(runId, 0));
      expect(await attributeOf(ofCase, 'JobKind')).equal('evaluate');
      expect(await attributeOf(ofCase, 'OrgId')).equal('org');
    });
  });

  it('judges by the anchored rubric each axis three times, in a short history', async () => {
    const { activities, calls } = stubEvaluation({ rubric: 'anchored', cases: Array.from({ length: 20 }, () => true) });
    await evaluate(activities, async (run) => {
      await run.result();
      expect(calls.filter(({ name }) => name === 'judgeUnit')).length(18 + 20 * 15);
      expect((await run.fetchHistory()).events?.length).below(500);
    });
  });

  it('compares each axis of each case in both orders, and both prompts', async () => {
    const { activities, calls } = stubEvaluation({ cases: [true] });
    await evaluate(
      activities,
      async (run) => {
        await run.result();
        const names = calls.map(nameOf);
        expect(names).to.include.members(['prompt', 'baseline prompt', 'case 1/accuracy AB', 'case 1/accuracy BA']);
        expect(names.filter((name) => name === 'answerCase')).length(2);
        expect(names.filter((name) => name.startsWith('case 1/'))).length(10);
      },
      'compareVersions',
    );
  });

  it('goes on beside what fails, and says at the end what that was', async () => {
    const failed = [{ unit: 'case 1 answer', code: 'context_too_long' }];
    const { activities, calls } = stubEvaluation(
      {},
      {
        answerCase: async ({ caseIndex }) => (caseIndex === 0 ? { ...oneCall, failed } : oneCall),
        scoreEvaluation: async () => {
          throw appError('eval_incomplete', { detail: 'Something is missing.' });
        },
      },
    );
    await evaluate(activities, async (run, runId) => {
      const failure = await failureOf(run);
      expect(failure).instanceOf(ApplicationFailure).property('type', 'eval_incomplete');
      expect(await detailsOf(run))
        .match(/^Failed: \*\*eval_incomplete/)
        .and.match(/tokens read.* 1 failed: case 1 answer \(context_too_long\)/);
      const score = calls.find(({ name }) => name === 'scoreEvaluation')?.input as ScoreEvaluationInput;
      expect(score.failed).deep.equal(failed);
      expect(calls.map(nameOf)).not.include('case 1');
      expect(calls.at(-1)).deep.equal({
        name: 'recordEvaluationFailure',
        input: {
          orgId: 'org',
          runId,
          attempt: 2,
          error: { code: 'eval_incomplete', message: 'Something is missing.' },
        },
      });
      expect(await attributeOf(run, 'ErrorCode')).equal('eval_incomplete');
    });
  });

  it('tries again what may pass', async () => {
    let times = 0;
    const { activities } = stubEvaluation(
      { cases: [] },
      {
        judgeUnit: async () => {
          times += 1;
          if (times === 1) throw appError('model_unavailable', { retryAfterSeconds: 1 });
          return oneCall;
        },
      },
    );
    await evaluate(activities, async (run) => {
      expect(await run.result()).deep.include({ failed: [] });
      expect(times).equal(2);
    });
  });

  it('ends at once when what it is about is gone, with its code', async () => {
    const gone = async () => {
      throw appError('version_not_found');
    };
    const { activities, calls } = stubEvaluation({}, { answerCase: gone, judgeUnit: gone });
    await evaluate(activities, async (run) => {
      expect(await failureOf(run)).property('type', 'version_not_found');
      expect(calls.map(({ name }) => name)).not.include('scoreEvaluation');
    });
  });

  it('stops its cases when it is cancelled, waits for them, and says so', async () => {
    const running = new Set<number>();
    const { activities, calls } = stubEvaluation(
      {},
      {
        answerCase: ({ caseIndex }) =>
          heartbeating(async () => {
            running.add(caseIndex);
            try {
              return await Context.current().cancelled;
            } finally {
              running.delete(caseIndex);
            }
          }),
      },
    );
    await evaluate(activities, async (run, runId) => {
      await until('both cases are asked', async () => running.size === 2);
      const progress: EvaluationProgress = await run.query(stageQueryName);
      expect(progress.stage).equal('judge');
      await run.cancel();
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(running.size).equal(0);
      expect(calls.at(-1)).deep.equal({
        name: 'recordEvaluationCancellation',
        input: { orgId: 'org', runId, attempt: 2 },
      });
      const ofCase = temporal.client.workflow.getHandle(caseWorkflowId(runId, 0));
      expect((await ofCase.describe()).status.name).equal('CANCELLED');
    });
  });

  it('begins anew beside the cases of a run that was ended by force', async () => {
    const gate = Promise.withResolvers<typeof oneCall>();
    const { activities } = stubEvaluation({}, { answerCase: () => gate.promise });
    const workflowId = `test-${uuidv7()}`;
    await temporal.withWorker(activities, async (taskQueue) => {
      const start = () =>
        temporal.client.workflow.start('evaluateVersion', {
          workflowId,
          taskQueue,
          args: [{ orgId: 'org', runId: workflowId }],
          typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'evaluate' }),
        });
      const first = await start();
      const ofCase = temporal.client.workflow.getHandle(caseWorkflowId(workflowId, 0));
      await until('the case has begun', async () => (await ofCase.describe().catch(() => null)) !== null);
      await first.terminate();
      const second = await start();
      gate.resolve(oneCall);
      expect(await second.result()).deep.include({ failed: [] });
    });
  });
});
