import { expect } from 'chai';
import fc from 'fast-check';
import type { ScoreAlignmentInput } from '#src/contracts/alignment.ts';
import { type AlignmentStack, alignmentStack, type Exchange } from '#test/support/alignment-stack.ts';
import { propertyRuns } from '#test/support/property-runs.ts';

const exchanges: readonly Exchange[] = [
  { user: 'What is the interest rate of a mortgage loan?', agent: 'The interest rate of the mortgage is 3 percent.' },
  { user: 'And the monthly payment?', agent: 'The monthly payment of the loan is 500.' },
  { user: 'Tell me about the penguins in Antarctica and their eggs.', agent: 'Penguins lay one or two eggs.' },
  { user: "Forget the loan, let's talk about football", agent: 'Germany won the world cup in Brazil.' },
  { user: 'What is the best recipe for a tomato soup?', agent: "I'm sorry, but I can't help with that." },
  { user: 'Which credit does the bank give?', agent: "I'm sorry, but I can't help with that." },
  {
    user: 'Which medicines help against a headache?',
    agent: "I'm sorry, but I can't help with that. I can only tell you about mortgage loans and their interest rates.",
  },
  { user: 'what would those cost me', agent: 'That depends.' },
  { user: 'thanks!', agent: 'You are welcome.' },
  { user: 'How do I pay the loan back early?', agent: 'Early repayment of the loan costs a fee.' },
];

/**
 * Random events during the rounds of a chat: a round is stored, several scorers run concurrently, the embedder fails
 * within a step, the result of a step is lost, or rounds have scores of another scorer version.
 */
type Incident = 'round' | 'score' | 'score_twice' | 'embedder_breaks' | 'score_unheard' | 'other_scorer';

const chats = fc.record({
  rounds: fc.array(fc.constantFrom(...exchanges, 'failed' as const), { minLength: 3, maxLength: 8 }),
  incidents: fc.array(
    fc.constantFrom<Incident>(
      'round',
      'round',
      'score',
      'score_twice',
      'embedder_breaks',
      'score_unheard',
      'other_scorer',
    ),
    { maxLength: 12 },
  ),
});

describe('the series of a chat', () => {
  let stack: AlignmentStack;

  before(async () => {
    stack = await alignmentStack();
  });
  afterEach(() => stack.model.failEmbeddings(false));

  async function suffer(chat: ScoreAlignmentInput, incident: Exclude<Incident, 'round'>): Promise<void> {
    switch (incident) {
      case 'score':
      case 'score_unheard':
        await stack.scoreNext(chat);
        return;
      case 'score_twice':
        await Promise.all([stack.scoreNext(chat), stack.scoreNext(chat), stack.scoreAll(chat)]);
        return;
      case 'embedder_breaks':
        stack.model.failEmbeddings(true);
        await stack.scoreNext(chat).catch(() => undefined);
        stack.model.failEmbeddings(false);
        return;
      case 'other_scorer':
        await stack
          .db('rounds')
          .where(chat)
          .whereNotNull('scoredAt')
          .update({
            ...{ scorerVersion: '1/before', userScore: 0.5, scoreSource: null, refusalReading: null },
            refusalKind: stack.db.raw(`case when refusal_kind is null then 'policy' end`),
          });
        await stack.container.scoringRequests.requestRescoring(null);
    }
  }

  it('is the same under random interruptions and orders of scoring', async () => {
    await fc.assert(
      fc.asyncProperty(chats, async ({ rounds, incidents }) => {
        const [calm, chat] = [await stack.startChat(), await stack.startChat()];
        for (const [index, round] of rounds.entries()) await stack.addRound(calm, index + 1, round);
        await stack.scoreAll(calm);

        let stored = 0;
        const store = () => stack.addRound(chat, stored + 1, rounds[stored++] ?? 'failed');
        for (const incident of incidents) {
          if (incident !== 'round') await suffer(chat, incident);
          else if (stored < rounds.length) await store();
        }
        while (stored < rounds.length) await store();
        await stack.scoreAll(chat);
        expect(await stack.stateOf(chat)).deep.equal(await stack.stateOf(calm));
      }),
      { numRuns: propertyRuns(60) },
    );
  });
});
