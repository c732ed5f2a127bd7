import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { withHeartbeats } from '#activities/heartbeats.ts';
import { scoreNewRoundsSignalName } from '#src/contracts/alignment.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { type Activities, failFirstAttempt, stubActivities, untilCancelled } from '#test/support/stub-activities.ts';
import { startRun } from '#test/support/test-workers.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

describe('scoreAlignment', () => {
  const input = { orgId: 'org', chatId: 'chat' };

  /** Starts the run of an untitled chat with this number of unscored rounds. */
  async function align(unscored: number, replaced: Partial<Activities> = {}) {
    let [left, round] = [unscored, 0];
    const stub = stubActivities({
      scoreNextRound: async () => {
        if (left === 0) return { scored: false };
        left -= 1;
        round += 1;
        const isUntitled = stub.timesOf('nameChat') === 0;
        return { scored: true, round, state: 'stable', ewma: 100, isUntitled, isJobDone: left === 0 };
      },
      ...replaced,
    });
    const run = await startRun('scoreAlignment', stub, input);
    const arrive = () => {
      left += 1;
      return run.signal(scoreNewRoundsSignalName);
    };
    return { ...stub, run, arrive };
  }

  it('scores all unscored rounds, the last of which closes the job, and then names the chat', async () => {
    const { run, names } = await align(3);
    await run.result();
    expect(names).deep.equal([...Array(3).fill('scoreNextRound'), 'nameChat']);
    expect(await run.query(stageQueryName)).deep.equal({ scoredRounds: 3, lastRound: 3 });
  });

  it('looks for unscored rounds again when a signal arrives during its last step', async () => {
    const nudged = Promise.withResolvers<void>();
    const { run, arrive, timesOf, untilCalled } = await align(0, {
      recordAlignmentSuccess: () => withHeartbeats(() => nudged.promise),
    });
    await untilCalled('recordAlignmentSuccess');
    await arrive();
    nudged.resolve();
    await run.result();
    expect(await run.query(stageQueryName)).deep.equal({ scoredRounds: 1, lastRound: 1 });
    expect(timesOf('recordAlignmentSuccess')).equal(1);
  });

  it('retries only the round whose scoring failed with a transient fault', async () => {
    const { run, names } = await align(0, {
      scoreNextRound: async () => {
        failFirstAttempt(appError('model_unavailable', { retryAfterSeconds: 0.01 }));
        return { scored: false };
      },
    });
    await run.result();
    expect(names).deep.equal(['scoreNextRound', 'scoreNextRound', 'recordAlignmentSuccess']);
  });

  it('succeeds when the chat cannot be named', async () => {
    const { run, timesOf } = await align(1, {
      nameChat: async () => {
        throw appError('model_not_configured');
      },
    });
    await run.result();
    expect(timesOf('nameChat')).equal(1);
  });

  it('scores the next round while a slow model still generates the title', async () => {
    const isScored = Promise.withResolvers<void>();
    const { run, arrive, timesOf, untilCalled } = await align(1, {
      nameChat: () => withHeartbeats(() => isScored.promise),
    });
    await untilCalled('nameChat');
    await arrive();
    await untilCalled('scoreNextRound', 2);
    isScored.resolve();
    await run.result();
    expect(await run.query(stageQueryName)).deep.equal({ scoredRounds: 2, lastRound: 2 });
    expect(timesOf('nameChat')).equal(1);
  });

  it('generates no title for a chat that has one', async () => {
    const rounds = [
      { scored: true, round: 7, state: 'stable', ewma: 100, isUntitled: false, isJobDone: true } as const,
    ];
    const { run, names } = await align(0, { scoreNextRound: async () => rounds.shift() ?? { scored: false } });
    await run.result();
    expect(names).not.include('nameChat');
  });

  it('shows its stage before it has scored a round, and records its cancellation', async () => {
    const { run, names, untilCalled } = await align(1, { scoreNextRound: untilCancelled });
    await untilCalled('scoreNextRound');
    expect(await attributeOf(run, 'Stage')).equal('score');
    expect(await detailsOf(run)).include('Looking for unscored rounds');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(names.at(-1)).equal('recordAlignmentCancellation');
  });

  it('waits, when it is cancelled, until the generation of the title has been cancelled too', async () => {
    let isGivenUp = false;
    const { run, names, untilCalled } = await align(1, {
      nameChat: () =>
        untilCancelled().finally(() => {
          isGivenUp = true;
        }),
    });
    await untilCalled('nameChat');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(isGivenUp).equal(true);
    expect(names.at(-1)).equal('recordAlignmentCancellation');
  });

  it('records the error code of its failure and fails with the same code', async () => {
    const { run, calls } = await align(1, {
      scoreNextRound: async () => {
        throw appError('chat_not_found');
      },
    });
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'chat_not_found');
    const error = { code: 'chat_not_found', message: 'The chat does not exist or is not readable' };
    expect(calls.at(-1)).deep.equal({ name: 'recordAlignmentFailure', input: { ...input, error } });
  });

  it('tries again when a signal arrives after it recorded its failure', async () => {
    const nudged = Promise.withResolvers<void>();
    let isBroken = true;
    const { run, arrive, names, untilCalled } = await align(0, {
      scoreNextRound: async () => {
        if (isBroken) throw appError('chat_not_found');
        return { scored: false };
      },
      recordAlignmentFailure: () => withHeartbeats(() => nudged.promise),
    });
    await untilCalled('recordAlignmentFailure');
    isBroken = false;
    await arrive();
    nudged.resolve();
    await run.result();
    expect(names).deep.equal(['scoreNextRound', 'recordAlignmentFailure', 'scoreNextRound', 'recordAlignmentSuccess']);
    expect(await attributeOf(run, 'ErrorCode')).equal(undefined);
  });

  it('continues as a new run before its history grows long', async () => {
    const { run, timesOf } = await align(260);
    await run.result();
    expect(timesOf('scoreNextRound')).equal(260);
    const { historyLength, runId } = await run.describe();
    expect(runId).not.equal(run.firstExecutionRunId);
    expect(historyLength).below(1_800);
  });
});
