import { expect } from 'chai';
import fc from 'fast-check';
import type { Knex } from 'knex';
import { createAlignmentActivities } from '#activities/alignment.ts';
import type { ScoreAlignmentInput, ScoreRoundResult } from '#src/contracts/alignment.ts';
import { alignmentWorkflowId } from '#src/contracts/workflow-ids.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { aPublishedAgent } from '#test/support/builders.ts';
import { activityEnvironment, runActivity } from '#test/support/ingestion-steps.ts';
import { propertyRuns } from '#test/support/seeded.ts';
import { isLockAwaited } from '#test/support/services.ts';
import { useIdleStack } from '#test/support/stack.ts';
import { addChat } from '#test/support/stored-rows.ts';
import { until } from '#test/support/until.ts';

type Exchange = { user: string; agent: string };

const says = (user: string, agent: string): Exchange => ({ user, agent });
const onTopic = says('What is the interest rate of a mortgage loan?', 'The rate of the mortgage loan is 3 percent.');
const penguins = says('Tell me about the penguins in Antarctica and their eggs.', 'Penguins lay one or two eggs.');
const soup = 'What is the best recipe for a tomato soup?';
const repayment = says('How do I pay the loan back early?', 'Early repayment of the loan costs a fee.');
const refusal = "I'm sorry, but I can't help with that.";
const straying = [
  ...[onTopic, penguins, says('Which football team won the world cup in Brazil?', 'Germany won in Brazil.')],
  says(soup, 'Cook tomatoes with onions and basil.'),
  ...[says('thanks!', 'You are welcome.'), repayment],
  says('And what is the monthly payment of the loan?', 'The monthly payment of the loan is 500.'),
  says('Which credit does the bank give?', refusal),
];
/** Refused with words that are on topic, and a question whose score depends on what the last answer was about. */
const refused = says(
  'Which medicines help against a headache?',
  `${refusal} I can only tell you about mortgage loans and their interest rates.`,
);
const afterRefusal = says('what would those cost me', 'That depends.');
const exchanges = [...straying, says(soup, refusal), refused, afterRefusal];

/**
 * Events during the rounds of a chat: a round is stored, several scorers run concurrently, the embedder fails within a
 * step or for long, or rounds have scores of another scorer version.
 */
const incidents = ['round', 'score', 'score_twice', 'embedder_breaks', 'embedder_is_down', 'other_scorer'] as const;
type Incident = (typeof incidents)[number];
type Course = { rounds: (Exchange | 'failed')[]; happened: Incident[] };

const courses: fc.Arbitrary<Course> = fc.record({
  rounds: fc.array(fc.constantFrom(...exchanges, 'failed' as const), { minLength: 3, maxLength: 8 }),
  happened: fc.array(fc.constantFrom('round', ...incidents), { maxLength: 12 }),
});

const examples: Course[] = [
  { rounds: straying, happened: straying.flatMap((): Incident[] => ['round', 'score']) },
  { rounds: straying, happened: [...straying.map((): Incident => 'round'), 'score_twice', 'score_twice'] },
  { rounds: straying.slice(0, 3), happened: ['round', 'embedder_is_down', 'round', 'embedder_is_down'] },
  { rounds: straying, happened: ['round', 'round', 'round', 'score_twice', 'other_scorer', 'score_twice', 'round'] },
  { rounds: [refused, afterRefusal], happened: ['round', 'score', 'other_scorer', 'round', 'score'] },
  { rounds: [onTopic, 'failed', repayment], happened: ['round', 'round', 'score'] },
];

describe('alignment scoring', () => {
  const own = useIdleStack({}, () => undefined);
  let agentId: string;
  before(async () => {
    agentId = await aPublishedAgent(own.ada);
  });
  beforeEach(() => own.model.failEmbeddings(false));

  async function startChat(): Promise<ScoreAlignmentInput> {
    const { orgId, userId: createdBy } = own.ada;
    return { orgId, chatId: await addChat(own.db, { orgId, createdBy, agentId }) };
  }
  const chatOf = ({ chatId: id }: ScoreAlignmentInput) => own.db('chats').where({ id }).first();
  const jobsOf = ({ chatId }: ScoreAlignmentInput) => own.db('jobs').where({ id: alignmentWorkflowId(chatId) });
  const jobOf = (chat: ScoreAlignmentInput) => jobsOf(chat).first();
  const updateRounds = (chat: ScoreAlignmentInput, columns: object) => own.db('rounds').where(chat).update(columns);
  const roundsOf = ({ chatId }: ScoreAlignmentInput) => own.db('rounds').where({ chatId }).orderBy('round');

  async function addRounds(chat: ScoreAlignmentInput, ...exchanges: (Exchange | 'failed')[]): Promise<void> {
    const { length: before } = await roundsOf(chat);
    for (const [index, exchange] of exchanges.entries()) {
      const result =
        exchange === 'failed'
          ? { status: 'error', userContent: 'Hello?', errorCode: 'model_unavailable' }
          : { status: 'complete', userContent: exchange.user, assistantReply: exchange.agent };
      const round = before + index + 1;
      await own.db('rounds').insert({ ...chat, round, model: 'm', finishedAt: new Date(), ...result });
    }
  }

  const activities = () => createAlignmentActivities(own.container);
  const scoreNext = (chat: ScoreAlignmentInput, attempt = 1) => {
    const { scoreNextRound } = activities();
    const environment = activityEnvironment({ attempt });
    return environment.run<[ScoreAlignmentInput], ScoreRoundResult, typeof scoreNextRound>(scoreNextRound, chat);
  };
  async function scoreAll(chat: ScoreAlignmentInput): Promise<number[]> {
    const rounds: number[] = [];
    for (let result = await scoreNext(chat); result.scored; result = await scoreNext(chat)) rounds.push(result.round);
    return rounds;
  }

  /** All that scoring writes, except times and ids. */
  async function stateOf(chat: ScoreAlignmentInput): Promise<unknown> {
    const rounds = await roundsOf(chat).select(
      ...['round', 'scorerVersion', 'scoreSource', 'userScore', 'agentScore', 'neutral', 'refusalKind'],
      ...['refusalReading', 'foldState', 'ewma', 'echoState', 'pruned', 'events'],
    );
    const withoutTimes = (events: object[]) => events.map((event) => ({ ...event, at: '' }));
    const { echoRound, echoState, ewma, alignmentScore } = await chatOf(chat);
    return {
      rounds: rounds.map((row) => ({ ...row, events: withoutTimes(row.events) })),
      ...{ echoRound, echoState, ewma, alignmentScore },
    };
  }

  /** Violations that `npm run admin -- verify` reports for the scores of the chat. */
  async function faultsOf({ chatId }: ScoreAlignmentInput) {
    const violations = await own.container.invariants.check();
    return violations.filter(({ invariant, detail }) => invariant === 'I6' && detail.includes(chatId));
  }

  /** What happens at each incident of a chat; `round` stores the next of these rounds. */
  function incidentsOf(chat: ScoreAlignmentInput, rounds: Course['rounds']): Record<Incident, () => Promise<unknown>> {
    const waiting = [...rounds];
    const { requestRescoring } = own.container.scoringRequests;
    const withoutEmbedder = async (attempt: number) => {
      own.model.failEmbeddings(true);
      await scoreNext(chat, attempt).catch(() => undefined);
      own.model.failEmbeddings(false);
    };
    return {
      round: () => addRounds(chat, ...waiting.splice(0, 1)),
      score: () => scoreNext(chat),
      score_twice: () => Promise.all([scoreNext(chat), scoreNext(chat), scoreAll(chat)]),
      embedder_breaks: () => withoutEmbedder(1),
      embedder_is_down: () => withoutEmbedder(9).then(() => requestRescoring(null)),
      other_scorer: async () => {
        const refusalKind = own.db.raw(`case when refusal_kind is null then 'policy' end`);
        const scores = { scorerVersion: '1/before', userScore: 0.5, scoreSource: null, refusalReading: null };
        await updateRounds(chat, { ...scores, refusalKind }).whereNotNull('scoredAt');
        await requestRescoring(null);
      },
    };
  }

  it('gives a chat the same scores however often it is interrupted and in whatever order its steps run', async () => {
    const runs = fc.asyncProperty(courses, async ({ rounds, happened }) => {
      const [calm, chat] = [await startChat(), await startChat()];
      await addRounds(calm, ...rounds);
      await scoreAll(calm);

      const happens = incidentsOf(chat, rounds);
      for (const incident of happened) await happens[incident]();
      for (const _ of rounds) await happens.round();
      await scoreAll(chat);
      expect(await stateOf(chat)).deep.equal(await stateOf(calm));
      expect(await scoreNext(chat)).deep.equal({ scored: false });
      expect(await faultsOf(chat)).deep.equal([]);
    });
    await fc.assert(runs, { numRuns: propertyRuns(60) + examples.length, examples: examples.map((each) => [each]) });
  });

  it('retries a failing embedder, and after the last retry scores by words alone', async () => {
    const chat = await startChat();
    await addRounds(chat, says('What is a loan with a collateral?', 'A loan with a collateral is safe.'));
    own.model.failEmbeddings(true);
    expect(await appErrorCode(scoreNext(chat, 3))).equal('model_unavailable');
    expect(await scoreNext(chat, 4)).include({ scored: true, round: 1, state: 'stable' });
    const row = await roundsOf(chat).first();
    expect(row.scoreSource).equal('words');
    expect(row.events.map((event: { type: string }) => event.type)).include('scoring_degraded');
  });

  it('records the reason of a repeated failure once, in the unscored round, and keeps it after the round is scored', async () => {
    const chat = await startChat();
    await addRounds(chat, onTopic, penguins);
    for (let times = 0; times < 2; times += 1) {
      const error = { code: 'internal_error', message: 'It broke.' };
      await runActivity(activities().recordAlignmentFailure, { ...chat, error });
    }
    const eventsNow = async (): Promise<{ type: string; round: number; data: object }[][]> =>
      (await roundsOf(chat)).map(({ events }) => events);
    const [[failure, ...others] = [], unscored] = await eventsNow();
    expect(failure).deep.include({ type: 'scoring_failed', round: 1, data: { reason: 'internal_error' } });
    expect([others, unscored]).deep.equal([[], []]);
    await scoreAll(chat);
    const [first, second] = (await eventsNow()).map((events) => events.map(({ type }) => type));
    expect(first).deep.equal(['scoring_failed']);
    expect(second).include('watch_entered');
  });

  describe('of a chat with scores of an older scorer version', () => {
    async function scoredChat(count = 1): Promise<ScoreAlignmentInput> {
      const chat = await startChat();
      await addRounds(chat, ...[...straying, ...straying, ...straying].slice(0, count));
      await scoreAll(chat);
      return chat;
    }

    /** Replaces scores by those of another scorer, which takes every message for on topic. */
    async function scoreAsBefore(chat: ScoreAlignmentInput): Promise<void> {
      const stable = (await roundsOf(chat).first()).foldState;
      const shown = { echoState: 'stable', ewma: 97, alignmentScore: 0.9 };
      await updateRounds(chat, {
        ...{ scorerVersion: '1/before', scoreSource: null, refusalReading: null, refusalKind: null },
        ...{ userScore: 0.9, agentScore: 0.9, neutral: false, pruned: false },
        ...{ foldState: JSON.stringify(stable), events: '[]', ...shown },
      });
      await own.db('chats').where({ id: chat.chatId }).update(shown);
    }
    const want = () => own.container.scoringRequests.requestRescoring(own.ada.orgId);

    it('replaces the old scores in steps, and leaves consistent scores of the chat after each step', async () => {
      const chat = await scoredChat(24);
      const expected = await stateOf(chat);
      await scoreAsBefore(chat);
      await want();
      expect(await scoreNext(chat)).include({ scored: true, round: 24 });
      expect(await faultsOf(chat)).deep.equal([]);
      expect((await chatOf(chat)).rescoringWantedAt).not.equal(null);
      await scoreAll(chat);
      expect(await stateOf(chat)).deep.equal(expected);
      await want();
      expect((await chatOf(chat)).rescoringWantedAt).equal(null);
    });

    it('scores by words, without a retry, if the embedder rejects the texts', async () => {
      const chat = await scoredChat(22);
      await scoreAsBefore(chat);
      await want();
      own.model.failEmbeddings(true, 400);
      expect(await scoreAll(chat)).deep.equal([22, 22]);
      expect(await own.db('rounds').where(chat).distinct().pluck('score_source')).deep.equal(['words']);
      expect(await chatOf(chat)).include({ rescoringWantedAt: null, rescoredTo: 0 });
    });

    it('keeps the old scores if the embedder fails during rescoring, still scores new rounds, and tries the rescoring again later', async () => {
      const chat = await scoredChat(3);
      await scoreAsBefore(chat);
      const before = await stateOf(chat);
      await want();
      own.model.failEmbeddings(true);
      expect(await scoreNext(chat, 9)).deep.equal({ scored: false });
      expect(await stateOf(chat)).deep.equal(before);
      await addRounds(chat, repayment);
      expect(await scoreNext(chat, 9)).include({ scored: true, round: 4 });

      own.model.failEmbeddings(false);
      const { requeueOverdue } = own.container.scoringRequests;
      await requeueOverdue();
      const job = await jobOf(chat);
      expect(job).include({ status: 'queued', kind: 'alignment' }).and.have.nested.property('start.bulk', true);
      await requeueOverdue();
      expect(await jobOf(chat)).include({ attempt: job.attempt });
      await scoreAll(chat);
      expect((await chatOf(chat)).rescoringWantedAt).equal(null);
    });

    it('rescores only outdated chats, and only those of the requested organization', async () => {
      const { requestRescoring, countRescoring } = own.container.scoringRequests;
      const [outdated, current] = [await scoredChat(), await scoredChat()];
      const wantedAt = async (chat: ScoreAlignmentInput) => (await chatOf(chat)).rescoringWantedAt;
      await scoreAsBefore(outdated);
      await requestRescoring('019f0000-0000-7000-8000-000000000000');
      expect(await wantedAt(outdated)).equal(null);

      const wanted = await requestRescoring(null);
      const since = await wantedAt(outdated);
      expect(since).instanceOf(Date);
      expect(await wantedAt(current)).equal(null);
      expect(await requestRescoring(null)).equal(wanted);
      expect(await wantedAt(outdated)).deep.equal(since);
      await scoreAll(outdated);
      expect(await countRescoring(own.ada.orgId)).equal(wanted - 1);
    });
  });

  describe('in a background job', () => {
    function requestScoring({ orgId, chatId: id }: ScoreAlignmentInput, trx: Knex) {
      const { userId: createdBy } = own.ada;
      const subject = { id, orgId, agentId, createdBy, acl: [`user:${createdBy}`] };
      return own.container.scoringRequests.requestScoring(trx, subject, null);
    }
    async function waitingChat(): Promise<ScoreAlignmentInput> {
      const chat = await startChat();
      await addRounds(chat, onTopic);
      await own.db.transaction((trx) => requestScoring(chat, trx));
      return chat;
    }

    it('keeps the job open while any round is unscored, even if the round is stored just as the job ends', async () => {
      const chat = await waitingChat();
      const { recordSuccess } = own.container.alignment;
      await recordSuccess(chat);
      expect(await jobOf(chat)).include({ status: 'queued' });
      await scoreAll(chat);
      expect(await jobOf(chat)).include({ status: 'succeeded', progressDone: 1 });
      const ended = await own.db.transaction(async (trx) => {
        await trx('chats').where({ id: chat.chatId }).forUpdate().first('id');
        const texts = { userContent: 'Hello?', assistantReply: 'Hello!' };
        await trx('rounds').insert({ ...chat, round: 2, model: 'm', status: 'complete', ...texts });
        await requestScoring(chat, trx);
        const success = recordSuccess(chat);
        await until('the end of the job waits for the lock', () => isLockAwaited(own.db));
        return { success };
      });
      await ended.success;
      expect(await jobOf(chat)).include({ status: 'queued' });
      await scoreAll(chat);
      await recordSuccess(chat);
      expect(await jobOf(chat)).include({ status: 'succeeded' });
    });

    it('queues the job again if it failed with a round unscored, but not if an operator cancelled it', async () => {
      const finishedAt = own.db.raw("now() - interval '1 hour'");
      for (const [status, expected] of [
        ['failed', { status: 'queued', attempt: 2, dispatchedAt: null }],
        ['cancelled', { status: 'cancelled', attempt: 1 }],
      ] as const) {
        const chat = await waitingChat();
        await updateRounds(chat, { finishedAt });
        await jobsOf(chat).update({ status, finishedAt });
        await own.container.scoringRequests.requeueOverdue();
        expect(await jobOf(chat)).include(expected);
      }
    });
  });
});
