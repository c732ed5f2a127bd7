import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { type AlignmentActivities, createAlignmentActivities } from '#activities/alignment.ts';
import type { ScoreAlignmentInput, ScoreRoundResult } from '#src/contracts/alignment.ts';
import { accessKeysOfRow } from '#src/domain/access/visibility.ts';
import { aPublishedAgent } from './builders.ts';
import type { Member } from './client.ts';
import { type ScriptedModel, startScriptedModel } from './scripted-model.ts';
import { type Stack, startStack } from './stack.ts';

/** The library logs every failure, also those that a test makes. */
const silent = new DefaultLogger('ERROR', () => undefined);

export type Exchange = { user: string; agent: string };

/** Chats whose rounds nobody scores but the test: no workers, and a database of its own. */
export type AlignmentStack = {
  container: Stack['container'];
  model: ScriptedModel;
  db: Knex;
  ada: Member;
  agentId: string;
  activities: AlignmentActivities;
  startChat(settings?: object): Promise<ScoreAlignmentInput>;
  addRound(chat: ScoreAlignmentInput, round: number, exchange: Exchange | 'failed'): Promise<void>;
  scoreNext(chat: ScoreAlignmentInput, attempt?: number): Promise<ScoreRoundResult>;
  /** @returns the rounds that it scored */
  scoreAll(chat: ScoreAlignmentInput): Promise<number[]>;
  /** All that scoring writes, but for times and ids. */
  stateOf(chat: ScoreAlignmentInput): Promise<unknown>;
};

let shared: Promise<AlignmentStack & { close(): Promise<void> }> | undefined;

export function alignmentStack(): Promise<AlignmentStack> {
  shared ??= startAlignmentStack();
  return shared;
}

after(async function closeAlignmentStack() {
  await (await shared)?.close();
});

async function startAlignmentStack(): Promise<AlignmentStack & { close(): Promise<void> }> {
  const model = await startScriptedModel();
  const own = await startStack(
    { OPENAI_BASE_URL: model.baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl },
    { workers: false },
  );
  const { db } = own.container;
  const ada = await own.signUp('Ada');
  const agentId = await aPublishedAgent(ada);
  const activities = createAlignmentActivities(own.container);

  const scoreNext: AlignmentStack['scoreNext'] = (chat, attempt = 1) =>
    new MockActivityEnvironment({ attempt }, { logger: silent }).run<
      [ScoreAlignmentInput],
      ScoreRoundResult,
      AlignmentActivities['scoreNextRound']
    >(activities.scoreNextRound, chat);

  return {
    container: own.container,
    model,
    db,
    ada,
    agentId,
    activities,
    scoreNext,

    async startChat(settings = {}) {
      const id = uuidv7();
      await db('chats').insert({
        id,
        orgId: ada.orgId,
        agentId,
        title: 'First message',
        titleSource: 'message',
        visibility: 'personal',
        acl: accessKeysOfRow({ orgId: ada.orgId, createdBy: ada.userId, visibility: 'personal', teamIds: [] }),
        ragEnabled: false,
        ragReranking: false,
        ragRerankingType: 'llm',
        createdBy: ada.userId,
        ...settings,
      });
      return { orgId: ada.orgId, chatId: id };
    },

    async addRound(chat, round, exchange) {
      await db('rounds').insert({
        ...chat,
        round,
        model: 'm',
        finishedAt: new Date(),
        ...(exchange === 'failed'
          ? { status: 'error', userContent: 'Hello?', errorCode: 'model_unavailable' }
          : { status: 'complete', userContent: exchange.user, assistantReply: exchange.agent }),
      });
    },

    async scoreAll(chat) {
      const rounds: number[] = [];
      for (let result = await scoreNext(chat); result.scored; result = await scoreNext(chat)) rounds.push(result.round);
      return rounds;
    },

    async stateOf({ chatId }) {
      const rounds = await db('rounds')
        .where({ chatId })
        .orderBy('round')
        .select(
          ...['round', 'scorerVersion', 'scoreSource', 'userScore', 'agentScore', 'neutral', 'refusalKind'],
          ...['refusalReading', 'foldState', 'ewma', 'echoState', 'pruned', 'events'],
        );
      const chat = await db('chats').where({ id: chatId }).first('echoRound', 'echoState', 'ewma', 'alignmentScore');
      const withoutTimes = rounds.map((row) => ({
        ...row,
        events: row.events.map((event: object) => ({ ...event, at: '' })),
      }));
      return { rounds: withoutTimes, chat };
    },

    async close() {
      await own.close();
      await model.close();
    },
  };
}
