import { MockActivityEnvironment } from '@temporalio/testing';
import { expect } from 'chai';
import type { Knex } from 'knex';
import type { AlignmentActivities } from '#activities/alignment.ts';
import type { ScoreAlignmentInput } from '#src/contracts/alignment.ts';
import { alignmentWorkflowId } from '#src/contracts/workflow-ids.ts';
import {
  type AlignmentState,
  alignmentStateAfterRound,
  initialAlignmentState,
} from '#src/domain/alignment/chat-state.ts';
import { type AlignmentStack, alignmentStack, type Exchange } from '#test/support/alignment-stack.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { until } from '#test/support/until.ts';

const straying: Exchange[] = [
  { user: 'What is the interest rate of a mortgage loan?', agent: 'The interest rate of the mortgage is 3 percent.' },
  { user: 'Tell me about the penguins in Antarctica and their eggs.', agent: 'Penguins lay one or two eggs.' },
  { user: 'Which football team won the world cup in Brazil?', agent: 'Germany won in Brazil.' },
  { user: 'What is the best recipe for a tomato soup?', agent: 'Cook tomatoes with onions and basil.' },
  { user: 'thanks!', agent: 'You are welcome.' },
  { user: 'How do I pay the loan back early?', agent: 'Early repayment of the loan costs a fee.' },
  { user: 'And what is the monthly payment of the loan?', agent: 'The monthly payment of the loan is 500.' },
  { user: 'Which credit does the bank give?', agent: "I'm sorry, I cannot help with that." },
];

describe('alignment activities', () => {
  let stack: AlignmentStack;
  let db: Knex;
  /** Expected states of the drifting chat, one for each round. */
  let expected: unknown;

  before(async () => {
    stack = await alignmentStack();
    db = stack.db;
    const chat = await strayingChat();
    await stack.scoreAll(chat);
    expected = await stack.stateOf(chat);
  });
  beforeEach(() => stack.model.failEmbeddings(false));

  async function strayingChat(): Promise<ScoreAlignmentInput> {
    const chat = await stack.startChat();
    for (const [index, exchange] of straying.entries()) await stack.addRound(chat, index + 1, exchange);
    return chat;
  }

  it('record the states of a chat that drifts and recovers', async () => {
    const { rounds } = expected as { rounds: { foldState: AlignmentState; pruned: boolean }[] };
    expect(rounds.map((row) => row.foldState.shown)).deep.equal([
      'stable',
      'watch',
      'watch',
      'drift_user',
      'drift_user',
      'drift_recovering',
      'watch',
      'refusal',
    ]);
    expect(rounds.map((row) => row.pruned)).deep.equal([false, true, true, false, false, false, false, false]);
  });

  it('compute the same states when rounds are scored one by one', async () => {
    const chat = await stack.startChat();
    for (const [index, exchange] of straying.entries()) {
      await stack.addRound(chat, index + 1, exchange);
      await stack.scoreAll(chat);
    }
    expect(await stack.stateOf(chat)).deep.equal(expected);
  });

  it('compute the same states when several run concurrently', async () => {
    const chat = await strayingChat();
    const scored = await Promise.all(Array.from({ length: 4 }, () => stack.scoreAll(chat)));
    expect(await stack.stateOf(chat)).deep.equal(expected);
    // Each concurrent step returns only rounds that it stored.
    expect(scored.flat().sort()).deep.equal(straying.map((_, index) => index + 1));
  });

  it('change nothing when they run again', async () => {
    const chat = await strayingChat();
    await stack.scoreAll(chat);
    const before = await db('rounds').where({ chatId: chat.chatId }).orderBy('round');
    expect(await stack.scoreNext(chat)).deep.equal({ scored: false });
    expect(await db('rounds').where({ chatId: chat.chatId }).orderBy('round')).deep.equal(before);
  });

  it('store scores from which the states can be recomputed', async () => {
    const chat = await strayingChat();
    await stack.scoreAll(chat);
    const rows = await db('rounds').where({ chatId: chat.chatId }).orderBy('round');
    let state = initialAlignmentState;
    for (const row of rows) {
      const { userScore: user, agentScore: agent, neutral, refusalKind } = row;
      state = alignmentStateAfterRound(
        state,
        { user, agent, neutral, refusal: refusalKind !== null },
        { offTopic: 3, onTopic: 2 },
      );
      expect(row).include({ ewma: state.ewma, alignmentScore: state.alignmentScore, echoState: state.shown });
    }
  });

  it('skip failed rounds', async () => {
    const chat = await stack.startChat();
    await stack.addRound(chat, 1, straying[0] ?? 'failed');
    await stack.addRound(chat, 2, 'failed');
    await stack.addRound(chat, 3, straying[5] ?? 'failed');
    await stack.scoreAll(chat);
    const scored = await db('rounds')
      .where({ chatId: chat.chatId })
      .whereNotNull('scoredAt')
      .orderBy('round')
      .pluck('round');
    expect(scored).deep.equal([1, 3]);
  });

  it('retry a failing embedder, and then score by words alone', async () => {
    const chat = await stack.startChat();
    await stack.addRound(chat, 1, {
      user: 'What is a loan with a collateral?',
      agent: 'A loan with a collateral is safe.',
    });
    stack.model.failEmbeddings(true);
    expect(await appErrorCode(stack.scoreNext(chat, 3))).equal('model_unavailable');
    expect(await stack.scoreNext(chat, 4)).include({ scored: true, round: 1, state: 'stable' });
    const row = await db('rounds').where({ chatId: chat.chatId }).first();
    expect(row.events.map((event: { type: string }) => event.type)).include('scoring_degraded');
  });

  const nameChat = (chat: ScoreAlignmentInput) =>
    new MockActivityEnvironment().run<[ScoreAlignmentInput], void, AlignmentActivities['nameChat']>(
      stack.activities.nameChat,
      chat,
    );
  const titleOf = async ({ chatId }: ScoreAlignmentInput) => (await db('chats').where({ id: chatId }).first()).title;

  it('record once in a round why scoring failed, and keep that beside its scores', async () => {
    const chat = await stack.startChat();
    await stack.addRound(chat, 1, straying[0] ?? 'failed');
    await stack.addRound(chat, 2, straying[1] ?? 'failed');
    const fail = () =>
      stack.activities.recordAlignmentFailure({ ...chat, error: { code: 'internal_error', message: 'It broke.' } });
    const runInActivity = (step: () => Promise<void>) => new MockActivityEnvironment().run(step);
    await runInActivity(fail);
    await runInActivity(fail);
    const eventsOf = async (round: number): Promise<{ type: string; round: number; data: object }[]> =>
      (await db('rounds').where({ chatId: chat.chatId, round }).first()).events;
    expect((await eventsOf(1)).map(({ type, round, data }) => ({ type, round, data }))).deep.equal([
      { type: 'scoring_failed', round: 1, data: { reason: 'internal_error' } },
    ]);
    expect(await eventsOf(2)).deep.equal([]);
    await stack.scoreAll(chat);
    expect((await eventsOf(1)).map(({ type }) => type)).deep.equal(['scoring_failed']);
    expect((await eventsOf(2)).map(({ type }) => type)).include('watch_entered');
  });

  it('generate a title for a chat that is titled by its first message', async () => {
    const chat = await strayingChat();
    await nameChat(chat);
    expect(await titleOf(chat)).equal('A scripted title');
  });

  it('never touch the title that a user chose', async () => {
    const chat = await stack.startChat({ title: 'My loan', titleSource: 'user' });
    await stack.addRound(chat, 1, straying[0] ?? 'failed');
    await nameChat(chat);
    expect(await titleOf(chat)).equal('My loan');
  });

  describe('and their job', () => {
    const jobOf = ({ chatId }: ScoreAlignmentInput) =>
      db('jobs')
        .where({ id: alignmentWorkflowId(chatId) })
        .first();
    const requestScoring = ({ chatId }: ScoreAlignmentInput, trx: Knex) => {
      const subject = {
        id: chatId,
        orgId: stack.ada.orgId,
        agentId: stack.agentId,
        createdBy: stack.ada.userId,
        acl: [`user:${stack.ada.userId}`],
      };
      return stack.container.scoringRequests.requestScoring(trx, subject, null);
    };
    const partOf = ({ chatId }: ScoreAlignmentInput, round: number, status: number) =>
      stack.ada.get(`/jobs/${alignmentWorkflowId(chatId)}.${round}`, status);

    async function waitingChat(): Promise<ScoreAlignmentInput> {
      const chat = await stack.startChat();
      await stack.addRound(chat, 1, straying[0] ?? 'failed');
      await db.transaction((trx) => requestScoring(chat, trx));
      return chat;
    }

    it('leave it open while a round is unscored', async () => {
      const chat = await waitingChat();
      const { alignment } = stack.container;
      await alignment.recordSuccess(chat);
      expect(await jobOf(chat)).include({ status: 'queued' });
      await stack.scoreAll(chat);
      expect(await jobOf(chat)).include({ status: 'running', progressDone: 1 });
      await alignment.recordSuccess(chat);
      expect(await jobOf(chat)).include({ status: 'succeeded' });
    });

    const isSomebodyBlocked = async () => {
      const { rows } = await db.raw<{ rows: unknown[] }>(
        `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return rows.length > 0;
    };

    it('leave it open for a round that is stored concurrently', async () => {
      const chat = await waitingChat();
      await stack.scoreAll(chat);
      const success = await db.transaction(async (trx) => {
        await trx('chats').where({ id: chat.chatId }).forUpdate().first('id');
        await trx('rounds').insert({
          ...chat,
          ...{ round: 2, model: 'm', status: 'complete', userContent: 'Hello?', assistantReply: 'Hello!' },
        });
        await requestScoring(chat, trx);
        const isOver = { success: stack.container.alignment.recordSuccess(chat) };
        await until('the end of the job waits for the lock', isSomebodyBlocked);
        return isOver;
      });
      await success.success;
      expect(await jobOf(chat)).include({ status: 'queued' });
    });

    it('report progress by round, also after a step died before it reported', async () => {
      const chat = await waitingChat();
      await stack.scoreAll(chat);
      await db('jobs')
        .where({ id: alignmentWorkflowId(chat.chatId) })
        .update({ progressDone: 0 });
      await stack.container.alignment.recordSuccess(chat);
      await partOf(chat, 1, 200);
      await partOf(chat, 2, 404);
    });

    describe('that ended while a round is unscored', () => {
      async function end(chat: ScoreAlignmentInput, status: 'failed' | 'cancelled'): Promise<void> {
        const longAgo = db.raw("now() - interval '1 hour'");
        await db('rounds').where({ chatId: chat.chatId }).update({ finishedAt: longAgo });
        await db('jobs')
          .where({ id: alignmentWorkflowId(chat.chatId) })
          .update({ status, finishedAt: longAgo });
      }

      it('queue it again', async () => {
        const chat = await waitingChat();
        await end(chat, 'failed');
        await stack.container.scoringRequests.requeueOverdue();
        expect(await jobOf(chat)).include({ status: 'queued', attempt: 2, dispatchedAt: null });
      });

      it('leave it alone when an operator cancelled it', async () => {
        const chat = await waitingChat();
        await end(chat, 'cancelled');
        await stack.container.scoringRequests.requeueOverdue();
        expect(await jobOf(chat)).include({ status: 'cancelled', attempt: 1 });
      });
    });
  });
});
