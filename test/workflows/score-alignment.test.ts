import { Context } from '@temporalio/activity';
import { WorkflowFailedError, type WorkflowHandleWithSignaledRunId } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { AlignmentActivities } from '#activities/alignment.ts';
import { heartbeating } from '#activities/heartbeating.ts';
import { type AlignmentProgress, nudgeSignalName } from '#src/contracts/alignment.ts';
import { stageQueryName } from '#src/contracts/messages.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { stubAlignment } from '#test/support/stub-alignment.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, detailsOf } from '#test/support/workflow-run.ts';

describe('scoreAlignment', function () {
  this.timeout(60_000);
  let temporal: TestWorkers;

  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  const input = { orgId: 'org', chatId: 'chat' };

  /** Nudges a run over stub activities into being, as the application does; `use` speaks to it meanwhile. */
  async function align(
    activities: AlignmentActivities,
    use: (run: WorkflowHandleWithSignaledRunId, nudge: () => Promise<WorkflowHandleWithSignaledRunId>) => Promise<void>,
  ): Promise<void> {
    await temporal.withWorker(activities, async (taskQueue) => {
      const workflowId = `test-${uuidv7()}`;
      const nudge = () =>
        temporal.client.workflow.signalWithStart('scoreAlignment', {
          workflowId,
          taskQueue,
          args: [input],
          signal: nudgeSignalName,
          typedSearchAttributes: searchAttributes({ OrgId: 'org', ChatId: 'chat', JobKind: 'alignment' }),
        });
      await use(await nudge(), nudge);
    });
  }

  async function failureOf(run: WorkflowHandleWithSignaledRunId): Promise<unknown> {
    const error: unknown = await run.result().then(
      () => undefined,
      (failure: unknown) => failure,
    );
    expect(error).instanceOf(WorkflowFailedError);
    return error instanceof WorkflowFailedError ? error.cause : undefined;
  }

  const times = (calls: string[], name: string) => calls.filter((call) => call === name).length;

  it('scores all rounds that wait, then closes the job and names the chat', async () => {
    const { activities, calls } = stubAlignment(3);
    await align(activities, async (run) => {
      await run.result();
      expect(calls.slice(0, 6)).deep.equal([
        'scoreNextRound',
        'scoreNextRound',
        'scoreNextRound',
        'scoreNextRound',
        'recordAlignmentSuccess',
        'nameChat',
      ]);
      expect(await run.query<AlignmentProgress>(stageQueryName)).deep.equal({ scoredRounds: 3, lastRound: 3 });
    });
  });

  it('says what it does before it has scored a round', async () => {
    const { activities, calls } = stubAlignment(1, {
      scoreNextRound: () => heartbeating(() => Context.current().cancelled),
    });
    await align(activities, async (run) => {
      await until('the first round is being scored', async () => calls.includes('scoreNextRound'));
      expect(await attributeOf(run, 'Stage')).equal('score');
      expect(await detailsOf(run)).include('Looking for rounds');
      await run.cancel();
      await failureOf(run);
    });
  });

  it('looks again when a nudge comes during its last step', async () => {
    let isFirst = true;
    const nudged = Promise.withResolvers<void>();
    const closing = Promise.withResolvers<void>();
    const { activities, calls, arrive } = stubAlignment(1, {
      recordAlignmentSuccess: async () => {
        if (!isFirst) return;
        isFirst = false;
        closing.resolve();
        await heartbeating(() => nudged.promise);
      },
    });
    await align(activities, async (run, nudge) => {
      await closing.promise;
      arrive();
      await nudge();
      nudged.resolve();
      await run.result();
      expect(await run.query<AlignmentProgress>(stageQueryName)).deep.equal({ scoredRounds: 2, lastRound: 2 });
      expect(times(calls, 'recordAlignmentSuccess')).equal(2);
    });
  });

  it('misses no round, however many nudges come and whenever', async () => {
    const { activities, calls, arrive } = stubAlignment(0);
    await align(activities, async (_run, nudge) => {
      for (let round = 0; round < 10; round++) {
        arrive();
        await Promise.all([nudge(), nudge()]);
      }
      const run = await nudge();
      await run.result();
      expect(await activities.scoreNextRound(input)).deep.equal({ scored: false });
      expect(calls).not.include('recordAlignmentFailure');
    });
  });

  it('repeats only the round whose scoring failed for a time', async () => {
    const { activities, calls } = stubAlignment(0, {
      scoreNextRound: async () => {
        if (Context.current().info.attempt === 1) throw appError('model_unavailable', { retryAfterSeconds: 0 });
        return { scored: false };
      },
    });
    await align(activities, async (run) => {
      await run.result();
      expect(times(calls, 'scoreNextRound')).within(2, 3);
      expect(calls).not.include('recordAlignmentFailure');
    });
  });

  it('ends well without a title', async () => {
    const { activities, calls } = stubAlignment(1, {
      nameChat: async () => {
        throw appError('model_not_configured');
      },
    });
    await align(activities, async (run) => {
      await run.result();
      expect(times(calls, 'nameChat')).equal(1);
      expect(times(calls, 'recordAlignmentSuccess')).equal(1);
    });
  });

  it('scores the next round while a slow model still thinks about the title', async () => {
    const isScored = Promise.withResolvers<void>();
    const isAsked = Promise.withResolvers<void>();
    const { activities, calls, arrive } = stubAlignment(1, {
      nameChat: async () => {
        isAsked.resolve();
        await heartbeating(() => isScored.promise);
      },
    });
    await align(activities, async (run, nudge) => {
      await isAsked.promise;
      arrive();
      await nudge();
      await until('the second round is scored', async () => times(calls, 'recordAlignmentSuccess') === 2);
      isScored.resolve();
      await run.result();
      expect(await run.query<AlignmentProgress>(stageQueryName)).deep.equal({ scoredRounds: 2, lastRound: 2 });
      expect(times(calls, 'nameChat')).equal(1);
    });
  });

  it('asks for no title where the chat has one', async () => {
    let waits = true;
    const { activities, calls } = stubAlignment(0, {
      scoreNextRound: async () => {
        if (!waits) return { scored: false };
        waits = false;
        return { scored: true, round: 7, state: 'stable', ewma: 100, isUntitled: false };
      },
    });
    await align(activities, async (run) => {
      await run.result();
      expect(calls).not.include('nameChat');
    });
  });

  it('waits for the title to be given up when it is cancelled', async () => {
    let isGivenUp = false;
    const { activities, calls } = stubAlignment(1, {
      nameChat: () =>
        heartbeating(async () => {
          await Context.current().cancelled.catch(() => undefined);
          isGivenUp = true;
          throw new CancelledFailure('given up');
        }),
    });
    await align(activities, async (run) => {
      await until('the title is asked for', async () => calls.includes('nameChat'));
      await run.cancel();
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(isGivenUp).equal(true);
      expect(calls.at(-1)).equal('recordAlignmentCancellation');
    });
  });

  it('records why it failed, and closes as failed with the code', async () => {
    const recorded: unknown[] = [];
    const { activities } = stubAlignment(1, {
      scoreNextRound: async () => {
        throw appError('chat_not_found');
      },
      recordAlignmentFailure: async (failure) => {
        recorded.push(failure);
      },
    });
    await align(activities, async (run) => {
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'chat_not_found');
      expect(recorded).deep.equal([
        { ...input, error: { code: 'chat_not_found', message: 'The chat does not exist or is not readable' } },
      ]);
    });
  });

  it('records that it was cancelled', async () => {
    const { activities, calls } = stubAlignment(1, {
      scoreNextRound: () => heartbeating(() => Context.current().cancelled),
    });
    await align(activities, async (run) => {
      await until('the step runs', async () => calls.includes('scoreNextRound'));
      await run.cancel();
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(calls.at(-1)).equal('recordAlignmentCancellation');
    });
  });

  it('goes on as a new run before its history grows long', async () => {
    const { activities, calls } = stubAlignment(230);
    await align(activities, async (run) => {
      await run.result();
      expect(times(calls, 'scoreNextRound')).equal(231);
      const { historyLength, runId } = await temporal.client.workflow.getHandle(run.workflowId).describe();
      expect(runId).not.equal(run.signaledRunId);
      expect(historyLength).below(1_800);
    });
  });
});
