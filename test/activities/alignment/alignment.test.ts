import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { type AlignmentActivities, createAlignmentActivities } from '#activities/alignment.ts';
import type { ScoreAlignmentInput, ScoreRoundResult } from '#src/contracts/alignment.ts';
import { alignmentWorkflowId } from '#src/contracts/workflow-ids.ts';
import { type FoldState, foldRound, initialFoldState } from '#src/domain/alignment-fold.ts';
import { aclOf } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { publishAgent } from '#test/support/chat-fixtures.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { createTestDatabase } from '#test/support/services.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

/** The library logs every failure, also those that a test makes. */
const silent = new DefaultLogger('ERROR', () => undefined);

type Exchange = { user: string; agent: string };

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

describe('alignment activities', function () {
  this.timeout(60_000);
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let model: ScriptedModel;
  let own: Stack;
  let db: Db;
  let ada: Member;
  let agentId: string;
  let activities: AlignmentActivities;
  /** What scoring the straying chat, round by round and once, leaves. */
  let expected: unknown;

  before(async () => {
    // Without workers and in a database of its own, so that nobody else scores the rounds.
    [database, model] = await Promise.all([createTestDatabase(), startScriptedModel()]);
    own = await startStack(
      { DATABASE_URL: database.url, OPENAI_BASE_URL: model.baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl },
      { workers: false },
    );
    db = own.container.db;
    ada = await own.signUp('Ada');
    agentId = await publishAgent(ada);
    activities = createAlignmentActivities(own.container);

    const chat = await strayingChat();
    await scoreAll(chat);
    expected = await stateOf(chat);
  });
  beforeEach(() => model.failEmbeddings(false));
  after(async () => {
    await own.close();
    await model.close();
    await database.drop();
  });

  async function startChat(settings: object = {}): Promise<ScoreAlignmentInput> {
    const id = uuidv7();
    const acl = aclOf({ orgId: ada.orgId, createdBy: ada.userId, visibility: 'personal', teamIds: [] });
    await db('chats').insert({
      id,
      orgId: ada.orgId,
      agentId,
      title: 'First message',
      titleSource: 'message',
      visibility: 'personal',
      acl,
      ragEnabled: false,
      ragReranking: false,
      ragRerankingType: 'llm',
      createdBy: ada.userId,
      ...settings,
    });
    return { orgId: ada.orgId, chatId: id };
  }

  async function addRound(chat: ScoreAlignmentInput, round: number, exchange: Exchange | 'failed'): Promise<void> {
    await db('rounds').insert({
      ...chat,
      round,
      model: 'm',
      finishedAt: new Date(),
      ...(exchange === 'failed'
        ? { status: 'error', userContent: 'Hello?', errorCode: 'model_unavailable' }
        : { status: 'complete', userContent: exchange.user, assistantReply: exchange.agent }),
    });
  }

  const scoreNext = (chat: ScoreAlignmentInput, attempt = 1): Promise<ScoreRoundResult> =>
    new MockActivityEnvironment({ attempt }, { logger: silent }).run<
      [ScoreAlignmentInput],
      ScoreRoundResult,
      AlignmentActivities['scoreNextRound']
    >(activities.scoreNextRound, chat);

  async function scoreAll(chat: ScoreAlignmentInput): Promise<void> {
    while ((await scoreNext(chat)).scored);
  }

  /** All that scoring writes, but for times and ids. */
  async function stateOf({ chatId }: ScoreAlignmentInput): Promise<unknown> {
    const rounds = await db('rounds')
      .where({ chatId })
      .orderBy('round')
      .select('round', 'userScore', 'agentScore', 'neutral', 'refusalKind', 'foldState', 'pruned', 'events');
    const chat = await db('chats').where({ id: chatId }).first('echoRound', 'echoState', 'ewma', 'alignmentScore');
    const withoutTimes = rounds.map((row) => ({
      ...row,
      events: row.events.map((event: object) => ({ ...event, at: '' })),
    }));
    return { rounds: withoutTimes, chat };
  }

  async function strayingChat(): Promise<ScoreAlignmentInput> {
    const chat = await startChat();
    for (const [index, exchange] of straying.entries()) await addRound(chat, index + 1, exchange);
    return chat;
  }

  it('tell the way of a chat that strays and comes back', async () => {
    const { rounds } = expected as { rounds: { foldState: FoldState; pruned: boolean }[] };
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

  it('find the same states when rounds come one by one', async () => {
    const chat = await startChat();
    for (const [index, exchange] of straying.entries()) {
      await addRound(chat, index + 1, exchange);
      await scoreAll(chat);
    }
    expect(await stateOf(chat)).deep.equal(expected);
  });

  it('find the same states when several run at the same time', async () => {
    const chat = await strayingChat();
    await Promise.all(Array.from({ length: 4 }, () => scoreAll(chat)));
    expect(await stateOf(chat)).deep.equal(expected);
  });

  it('change nothing when they run again', async () => {
    const chat = await strayingChat();
    await scoreAll(chat);
    const before = await db('rounds').where({ chatId: chat.chatId }).orderBy('round');
    expect(await scoreNext(chat)).deep.equal({ scored: false });
    expect(await db('rounds').where({ chatId: chat.chatId }).orderBy('round')).deep.equal(before);
  });

  it('store scores from which the states follow again', async () => {
    const chat = await strayingChat();
    await scoreAll(chat);
    const rows = await db('rounds').where({ chatId: chat.chatId }).orderBy('round');
    let state = initialFoldState;
    for (const row of rows) {
      const { userScore: user, agentScore: agent, neutral, refusalKind } = row;
      state = foldRound(state, { user, agent, neutral, refusal: refusalKind !== null }, { offTopic: 3, onTopic: 2 });
      expect(row).include({ ewma: state.ewma, alignmentScore: state.alignmentScore, echoState: state.shown });
    }
  });

  it('pass over rounds that failed', async () => {
    const chat = await startChat();
    await addRound(chat, 1, straying[0] ?? 'failed');
    await addRound(chat, 2, 'failed');
    await addRound(chat, 3, straying[5] ?? 'failed');
    await scoreAll(chat);
    const scored = await db('rounds')
      .where({ chatId: chat.chatId })
      .whereNotNull('scoredAt')
      .orderBy('round')
      .pluck('round');
    expect(scored).deep.equal([1, 3]);
  });

  it('wait for the embedder through some attempts and then score by words alone', async () => {
    const chat = await startChat();
    await addRound(chat, 1, { user: 'What is a loan with a collateral?', agent: 'A loan with a collateral is safe.' });
    model.failEmbeddings(true);
    expect(await appErrorCode(scoreNext(chat, 3))).equal('model_unavailable');
    expect(await scoreNext(chat, 4)).include({ scored: true, round: 1, state: 'stable' });
    const row = await db('rounds').where({ chatId: chat.chatId }).first();
    expect(row.events.map((event: { type: string }) => event.type)).include('scoring_degraded');
  });

  const nameChat = (chat: ScoreAlignmentInput) =>
    new MockActivityEnvironment().run<[ScoreAlignmentInput], void, AlignmentActivities['nameChat']>(
      activities.nameChat,
      chat,
    );
  const titleOf = async ({ chatId }: ScoreAlignmentInput) => (await db('chats').where({ id: chatId }).first()).title;

  it('name a chat that is called by its message', async () => {
    const chat = await strayingChat();
    await nameChat(chat);
    expect(await titleOf(chat)).equal('A scripted title');
  });

  it('never touch the title that a user chose', async () => {
    const chat = await startChat({ title: 'My loan', titleSource: 'user' });
    await addRound(chat, 1, straying[0] ?? 'failed');
    await nameChat(chat);
    expect(await titleOf(chat)).equal('My loan');
  });

  it('leave a job open while a round still waits', async () => {
    const chat = await startChat();
    await addRound(chat, 1, straying[0] ?? 'failed');
    const { alignment } = own.container;
    await db('rounds')
      .where({ chatId: chat.chatId })
      .update({ finishedAt: new Date(Date.now() - 60_000) });
    const subject = { id: chat.chatId, orgId: ada.orgId, agentId, createdBy: ada.userId, acl: [`user:${ada.userId}`] };
    await db.transaction((trx) => alignment.requestScoring(trx, subject, null));
    const job = () =>
      db('jobs')
        .where({ id: alignmentWorkflowId(chat.chatId) })
        .first();

    await alignment.recordSuccess(chat);
    expect(await job()).include({ status: 'queued' });
    await scoreAll(chat);
    expect(await job()).include({ status: 'running', progressDone: 1 });
    await alignment.recordSuccess(chat);
    expect(await job()).include({ status: 'succeeded' });
  });
});
