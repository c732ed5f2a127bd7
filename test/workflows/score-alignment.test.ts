import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { AlignmentActivities } from '#activities/alignment.ts';
import { withHeartbeats } from '#activities/heartbeats.ts';
import { type AlignmentProgress, scoreNewRoundsSignalName } from '#src/contracts/alignment.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { failFirstAttempt, stubAlignment, untilCancelled } from '#test/support/stub-activities.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

describe('scoreAlignment', () => {
  let worker: StandingWorker;
  before(async () => {
    worker = await standingWorker();
  });

  const input = { orgId: 'org', chatId: 'chat' };

  /** Starts the run of a chat by a signal, as the application does. `nudge` signals it again. */
  async function align(activities: AlignmentActivities) {
    const workflowId = `test-${uuidv7()}`;
    const nudge = () =>
      worker.signalWithStart('scoreAlignment', activities, {
        workflowId,
        args: [input],
        signal: scoreNewRoundsSignalName,
        typedSearchAttributes: searchAttributes({ OrgId: 'org', ChatId: 'chat', JobKind: 'alignment' }),
      });
    const run = await nudge();
    return { run, nudge, progress: () => run.query<AlignmentProgress>(stageQueryName) };
  }
  const times = (names: string[], name: string) => names.filter((call) => call === name).length;

  it('scores all waiting rounds, closes the job and then names the chat', async () => {
    const { activities, names } = stubAlignment(3);
    const { run, progress } = await align(activities);
    await run.result();
    expect(names.slice(0, 6)).deep.equal([...Array(4).fill('scoreNextRound'), 'recordAlignmentSuccess', 'nameChat']);
    expect(await progress()).deep.equal({ scoredRounds: 3, lastRound: 3 });
  });

  it('looks for unscored rounds again when a signal arrives during its last step', async () => {
    const nudged = Promise.withResolvers<void>();
    const { activities, names, arrive, untilCalled } = stubAlignment(1, {
      recordAlignmentSuccess: () => withHeartbeats(() => nudged.promise),
    });
    const { run, nudge, progress } = await align(activities);
    await untilCalled('recordAlignmentSuccess');
    arrive();
    await nudge();
    nudged.resolve();
    await run.result();
    expect(await progress()).deep.equal({ scoredRounds: 2, lastRound: 2 });
    expect(times(names, 'recordAlignmentSuccess')).equal(2);
  });

  it('retries only the round whose scoring failed with a transient fault', async () => {
    const { activities, names } = stubAlignment(0, {
      scoreNextRound: async () => {
        failFirstAttempt(appError('model_unavailable', { retryAfterSeconds: 0.01 }));
        return { scored: false };
      },
    });
    await (await align(activities)).run.result();
    expect(times(names, 'scoreNextRound')).within(2, 3);
    expect(names).not.include('recordAlignmentFailure');
  });

  it('succeeds when the chat cannot be named', async () => {
    const { activities, names } = stubAlignment(1, {
      nameChat: async () => {
        throw appError('model_not_configured');
      },
    });
    await (await align(activities)).run.result();
    expect([times(names, 'nameChat'), times(names, 'recordAlignmentSuccess')]).deep.equal([1, 1]);
  });

  it('scores the next round while a slow model still generates the title', async () => {
    const isScored = Promise.withResolvers<void>();
    const { activities, names, arrive, untilCalled } = stubAlignment(1, {
      nameChat: () => withHeartbeats(() => isScored.promise),
    });
    const { run, nudge, progress } = await align(activities);
    await untilCalled('nameChat');
    arrive();
    await nudge();
    await untilCalled('recordAlignmentSuccess', 2);
    isScored.resolve();
    await run.result();
    expect(await progress()).deep.equal({ scoredRounds: 2, lastRound: 2 });
    expect(times(names, 'nameChat')).equal(1);
  });

  it('generates no title for a chat that has one', async () => {
    const rounds = [{ scored: true, round: 7, state: 'stable', ewma: 100, isUntitled: false } as const];
    const { activities, names } = stubAlignment(0, {
      scoreNextRound: async () => rounds.shift() ?? { scored: false },
    });
    await (await align(activities)).run.result();
    expect(names).not.include('nameChat');
  });

  it('shows its stage before it has scored a round, and records its cancellation', async () => {
    const { activities, names, untilCalled } = stubAlignment(1, { scoreNextRound: untilCancelled });
    const { run } = await align(activities);
    await untilCalled('scoreNextRound');
    expect(await attributeOf(run, 'Stage')).equal('score');
    expect(await detailsOf(run)).include('Looking for unscored rounds');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(names.at(-1)).equal('recordAlignmentCancellation');
  });

  it('waits, when it is cancelled, until the generation of the title has been cancelled too', async () => {
    let isGivenUp = false;
    const { activities, names, untilCalled } = stubAlignment(1, {
      nameChat: async () => {
        await untilCancelled().catch(() => undefined);
        isGivenUp = true;
        throw new CancelledFailure('given up');
      },
    });
    const { run } = await align(activities);
    await untilCalled('nameChat');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(isGivenUp).equal(true);
    expect(names.at(-1)).equal('recordAlignmentCancellation');
  });

  it('records the error code of its failure and fails with the same code', async () => {
    const recorded: unknown[] = [];
    const { activities } = stubAlignment(1, {
      scoreNextRound: async () => {
        throw appError('chat_not_found');
      },
      recordAlignmentFailure: async (failure) => void recorded.push(failure),
    });
    const { run } = await align(activities);
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'chat_not_found');
    const error = { code: 'chat_not_found', message: 'The chat does not exist or is not readable' };
    expect(recorded).deep.equal([{ ...input, error }]);
  });

  it('tries again when a signal arrives after it recorded its failure', async () => {
    const nudged = Promise.withResolvers<void>();
    let isBroken = true;
    const { activities, names, untilCalled } = stubAlignment(1, {
      scoreNextRound: async () => {
        if (isBroken) throw appError('chat_not_found');
        return { scored: false };
      },
      recordAlignmentFailure: () => withHeartbeats(() => nudged.promise),
    });
    const { run, nudge } = await align(activities);
    await untilCalled('recordAlignmentFailure');
    isBroken = false;
    await nudge();
    nudged.resolve();
    await run.result();
    expect(names).deep.equal(['scoreNextRound', 'recordAlignmentFailure', 'scoreNextRound', 'recordAlignmentSuccess']);
    expect(await attributeOf(run, 'ErrorCode')).equal(undefined);
  });

  it('continues as a new run before its history grows long', async () => {
    const { activities, names } = stubAlignment(230);
    const { run } = await align(activities);
    await run.result();
    expect(times(names, 'scoreNextRound')).equal(231);
    const { historyLength, runId } = await worker.client.workflow.getHandle(run.workflowId).describe();
    expect(runId).not.equal(run.signaledRunId);
    expect(historyLength).below(1_800);
  });
});
