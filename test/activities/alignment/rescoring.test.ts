import { expect } from 'chai';
import type { ScoreAlignmentInput } from '#src/contracts/alignment.ts';
import { alignmentWorkflowId } from '#src/contracts/workflow-ids.ts';
import { type AlignmentStack, alignmentStack, type Exchange } from '#test/support/alignment-stack.ts';

const exchanges: readonly Exchange[] = [
  { user: 'What is the interest rate of a mortgage loan?', agent: 'The interest rate of the mortgage is 3 percent.' },
  { user: 'Tell me about the penguins in Antarctica and their eggs.', agent: 'Penguins lay one or two eggs.' },
  { user: 'Which football team won the world cup in Brazil?', agent: 'Germany won in Brazil.' },
  { user: 'What is the best recipe for a tomato soup?', agent: "I'm sorry, but I can't help with that." },
  { user: 'How do I pay the loan back early?', agent: 'Early repayment of the loan costs a fee.' },
  { user: 'And the monthly payment?', agent: 'The monthly payment of the loan is 500.' },
];

describe('rescoring a chat', () => {
  let stack: AlignmentStack;

  before(async () => {
    stack = await alignmentStack();
  });
  beforeEach(() => stack.model.failEmbeddings(false));

  async function scoredChat(rounds = exchanges.length): Promise<ScoreAlignmentInput> {
    const chat = await stack.startChat({ titleSource: 'user' });
    for (let round = 1; round <= rounds; round++) {
      await stack.addRound(chat, round, exchanges[(round - 1) % exchanges.length] ?? 'failed');
    }
    await stack.scoreAll(chat);
    return chat;
  }

  /** Replaces scores by those of another scorer, which takes every message for on topic. */
  async function scoreAsBefore({ chatId }: ScoreAlignmentInput): Promise<void> {
    const stable = (await stack.db('rounds').where({ chatId }).orderBy('round').first()).foldState;
    await stack
      .db('rounds')
      .where({ chatId })
      .update({
        ...{ scorerVersion: '1/before', scoreSource: null, refusalReading: null, refusalKind: null },
        ...{ userScore: 0.9, agentScore: 0.9, neutral: false, pruned: false },
        ...{ foldState: JSON.stringify(stable), ewma: 97, echoState: 'stable', alignmentScore: 0.9, events: '[]' },
      });
    await stack.db('chats').where({ id: chatId }).update({ echoState: 'stable', ewma: 97, alignmentScore: 0.9 });
  }

  const chatOf = ({ chatId }: ScoreAlignmentInput) => stack.db('chats').where({ id: chatId }).first();
  const want = () => stack.container.scoringRequests.requestRescoring(stack.ada.orgId);

  /** Violations that `npm run admin -- verify` reports for the scores of the chat. */
  async function faultsOf({ chatId }: ScoreAlignmentInput): Promise<string[]> {
    for await (const report of stack.container.invariants.reports()) {
      if (report.invariant !== 'I6' || report.outcome !== 'checked') continue;
      return report.first.map(({ detail }) => detail).filter((detail) => detail.includes(chatId));
    }
    throw new Error('I6 was not checked');
  }

  it('gives the same states as scoring it for the first time', async () => {
    const chat = await scoredChat();
    const expected = await stack.stateOf(chat);
    await scoreAsBefore(chat);
    await want();
    await stack.scoreAll(chat);
    expect(await stack.stateOf(chat)).deep.equal(expected);
    await want();
    expect((await chatOf(chat)).rescoringWantedAt).equal(null);
  });

  it('gives the same states with concurrent steps and new rounds', async () => {
    const expected = await stack.stateOf(await scoredChat(exchanges.length));
    const chat = await scoredChat(exchanges.length - 1);
    await scoreAsBefore(chat);
    await want();
    await Promise.all([
      stack.scoreAll(chat),
      stack.scoreAll(chat),
      stack.addRound(chat, exchanges.length, exchanges.at(-1) ?? 'failed'),
    ]);
    await stack.scoreAll(chat);
    expect(await stack.stateOf(chat)).deep.equal(expected);
  });

  it('keeps one consistent series after each of several steps', async () => {
    const chat = await scoredChat(24);
    const expected = await stack.stateOf(chat);
    await scoreAsBefore(chat);
    await want();
    expect(await stack.scoreNext(chat)).include({ scored: true, round: 24 });
    expect(await faultsOf(chat)).deep.equal([]);
    expect((await chatOf(chat)).rescoringWantedAt).not.equal(null);
    await stack.scoreAll(chat);
    expect(await stack.stateOf(chat)).deep.equal(expected);
  });

  it('measures rounds again after a newly detected refusal, also if the current scorer has scored them', async () => {
    const [refused, after] = [
      {
        user: 'Which medicines help against a headache?',
        agent:
          "I'm sorry, but I can't help with that. I can only tell you about mortgage loans and their interest rates.",
      },
      { user: 'what would those cost me', agent: 'That depends.' },
    ];
    const [calm, chat] = [
      await stack.startChat({ titleSource: 'user' }),
      await stack.startChat({ titleSource: 'user' }),
    ];
    for (const each of [calm, chat]) {
      await stack.addRound(each, 1, refused);
      await stack.scoreAll(each);
    }
    await scoreAsBefore(chat);
    for (const each of [calm, chat]) {
      await stack.addRound(each, 2, after);
      await stack.scoreAll(each);
    }
    const [, misread] = await stack.db('rounds').where(chat).orderBy('round').pluck('user_score');
    await want();
    await stack.scoreAll(chat);
    expect(await stack.stateOf(chat)).deep.equal(await stack.stateOf(calm));
    const [, read] = await stack.db('rounds').where(chat).orderBy('round').pluck('user_score');
    expect(read).below(misread);
  });

  it('scores texts by words if the embedder rejects them, and does not retry', async () => {
    const chat = await scoredChat(22);
    await scoreAsBefore(chat);
    await want();
    stack.model.failEmbeddings(true, 400);
    expect(await stack.scoreAll(chat)).deep.equal([22, 22]);
    expect(await stack.db('rounds').where(chat).distinct().pluck('score_source')).deep.equal(['words']);
    expect(await chatOf(chat)).include({ rescoringWantedAt: null, rescoredTo: 0 });
  });

  it('processes other chats before it retries a failed one', async () => {
    const { scoringRequests } = stack.container;
    const chats: string[] = [];
    for (let n = 0; n < 21; n++) chats.push((await scoredChat(1)).chatId);
    await stack.db('chats').update({ rescoringWantedAt: null });
    await stack.db('chats').whereIn('id', chats).update({ rescoringWantedAt: new Date() });
    const jobs = chats.map(alignmentWorkflowId);
    const queued = () => stack.db('jobs').whereIn('id', jobs).where({ status: 'queued' }).pluck('id');
    await scoringRequests.requeueOverdue();
    const first = await queued();
    expect(first).length(20);
    await stack
      .db('jobs')
      .whereIn('id', first)
      .update({ status: 'failed', finishedAt: new Date(Date.now() - 60_000) });
    await scoringRequests.requeueOverdue();
    expect(await queued()).include(jobs.find((id) => !first.includes(id)));
    await stack.db('chats').whereIn('id', chats).update({ rescoringWantedAt: null });
  });

  it('rescores rounds that were scored by words alone', async () => {
    const expected = await stack.stateOf(await scoredChat(2));
    const chat = await stack.startChat({ titleSource: 'user' });
    stack.model.failEmbeddings(true);
    for (const round of [1, 2]) {
      await stack.addRound(chat, round, exchanges[round - 1] ?? 'failed');
      await stack.scoreNext(chat, 9);
    }
    expect(await stack.db('rounds').where({ chatId: chat.chatId }).pluck('score_source')).deep.equal([
      'words',
      'words',
    ]);
    stack.model.failEmbeddings(false);
    await want();
    await stack.scoreAll(chat);
    expect(await stack.stateOf(chat)).deep.equal(expected);
  });

  it('keeps old scores while the embedder fails, scores new rounds, and retries later', async () => {
    const chat = await scoredChat(3);
    await scoreAsBefore(chat);
    const before = await stack.stateOf(chat);
    await want();
    stack.model.failEmbeddings(true);
    expect(await stack.scoreNext(chat, 9)).deep.equal({ scored: false });
    expect(await stack.stateOf(chat)).deep.equal(before);
    await stack.addRound(chat, 4, exchanges[4] ?? 'failed');
    expect(await stack.scoreNext(chat, 9)).include({ scored: true, round: 4 });

    stack.model.failEmbeddings(false);
    await stack.container.scoringRequests.requeueOverdue();
    const job = await stack
      .db('jobs')
      .where({ id: alignmentWorkflowId(chat.chatId) })
      .first();
    expect(job).include({ status: 'queued', kind: 'alignment' }).and.have.nested.property('start.bulk', true);
    await stack.container.scoringRequests.requeueOverdue();
    expect((await stack.db('jobs').where({ id: job.id }).first()).attempt).equal(job.attempt);
    await stack.scoreAll(chat);
    expect((await chatOf(chat)).rescoringWantedAt).equal(null);
  });

  it('affects outdated chats of one organization only', async () => {
    const { scoringRequests } = stack.container;
    const [outdated, current] = [await scoredChat(1), await scoredChat(1)];
    await scoreAsBefore(outdated);
    await scoringRequests.requestRescoring('019f0000-0000-7000-8000-000000000000');
    expect((await chatOf(outdated)).rescoringWantedAt).equal(null);

    const wanted = await scoringRequests.requestRescoring(null);
    const { rescoringWantedAt } = await chatOf(outdated);
    expect(rescoringWantedAt).instanceOf(Date);
    expect((await chatOf(current)).rescoringWantedAt).equal(null);
    expect(await scoringRequests.requestRescoring(null)).equal(wanted);
    expect((await chatOf(outdated)).rescoringWantedAt).deep.equal(rescoringWantedAt);
    await stack.scoreAll(outdated);
    expect(await scoringRequests.countRescoring(stack.ada.orgId)).equal(wanted - 1);
  });
});
