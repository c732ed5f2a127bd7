import { expect } from 'chai';
import { alignmentWorkflowId, anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import { alignmentCalibrationFor } from '#src/domain/alignment/score.ts';
import { judgeDialogues } from '../../bench/alignment/dialogue-quality.ts';
import { readDialogues } from '../../bench/alignment/dialogues.ts';
import { createEmbedTexts } from '../../scripts/alignment/embed-texts.ts';
import { aPublishedAgent, ask } from './builders.ts';
import type { FaultCase, Scenario } from './fault-case.ts';
import { testServices } from './services.ts';
import { until } from './until.ts';
import { type JobView, untilJob } from './until-job.ts';

const embeddingModel = 'all-minilm-l6-v2-int8-r2';

/** A conversation that loses its topic and comes back to it. */
const dialogue = readDialogues('dialogues').filter(
  ({ agent, script }) => agent.name.startsWith('Air') && script === 'return',
);

/** State and trend of each round, as they follow from the texts with nothing between. */
async function expectedSeries(): Promise<string[]> {
  const embed = createEmbedTexts({ baseUrl: testServices().modelBaseUrl, model: embeddingModel });
  const judged = await judgeDialogues(dialogue, embed, alignmentCalibrationFor(embeddingModel));
  return judged.map(({ state }) => `${state.shown} ${state.ewma.toFixed(3)}`);
}

async function storedSeries({ stack }: FaultCase, chatId: string): Promise<string[]> {
  const rounds = await stack.container.db('rounds').where({ chatId }).orderBy('round');
  return rounds.map(({ echoState, ewma }) => `${echoState} ${Number(ewma).toFixed(3)}`);
}

/**
 * Says all of the dialogue, or its beginning. The last round is said once those before are scored: a title that was
 * given up for one run is made by the next.
 */
async function converse(
  own: FaultCase,
  untilScored: (jobId: string) => Promise<unknown>,
  rounds = Number.POSITIVE_INFINITY,
): Promise<string> {
  const [said] = dialogue;
  if (said === undefined) throw new Error('There is no such dialogue.');
  const { persona, anchors } = said.agent;
  const agentId = await aPublishedAgent(own.member, { agent_prompt: persona, anchor_words: anchors });
  await untilJob(own.member, anchorWordsWorkflowId(agentId), 'succeeded');
  let chatId = '';
  const wanted = said.rounds.slice(0, rounds);
  for (const [place, { user, agent }] of wanted.entries()) {
    own.model.behave(() => ({ kind: 'answer', text: agent }));
    const to = chatId === '' ? { agent_id: agentId } : { chat_id: chatId };
    const answer = await ask(own.member, { ...to, message: user, enable_rag: false }, chatId === '' ? 201 : 200);
    chatId = answer.chat_id;
    if (place >= wanted.length - 2) await untilScored(alignmentWorkflowId(chatId));
  }
  own.model.calls.length = 0;
  return chatId;
}

/** Whatever dies, the series is that of the texts, and the chat has its title. */
export const scoreChat: Scenario = {
  drive: async (own) => {
    const chatId = await converse(own, (jobId) => untilJob(own.member, jobId, 'succeeded'));
    expect(await storedSeries(own, chatId)).deep.equal(await expectedSeries());
    const isNamed = async () =>
      (await own.stack.container.db('chats').where({ id: chatId }).first()).titleSource === 'generated';
    await until('it has its title', isNamed);
    return { documentId: null, jobId: alignmentWorkflowId(chatId) };
  },
};

export const failScoring: Scenario = {
  faults: 'scoreNextRound:before:throw:blob_missing',
  drive: async (own) => {
    const chatId = await converse(own, async (jobId) => {
      const retry = async () => {
        const { status } = (await own.member.get(`/jobs/${jobId}`, 200)).body as JobView;
        if (status === 'failed') await own.member.raw(`/jobs/${jobId}/retry`, { method: 'POST' });
        return status === 'succeeded';
      };
      await until('it succeeds at last', retry);
    });
    expect(await storedSeries(own, chatId)).deep.equal(await expectedSeries());
    return { documentId: null, jobId: alignmentWorkflowId(chatId) };
  },
};

/** The round that was scored when somebody took the job away has its score, and keeps it. */
export const cancelScoring: Scenario = {
  faults: 'scoreNextRound:after_effect:hang',
  drive: async (own) => {
    const cancel = async (jobId: string) => {
      const isScored = async () => (await own.stack.container.db('rounds').whereNotNull('scoredAt')).length > 0;
      await until('the round is scored', isScored);
      await own.stack.container.orchestrator.cancel(jobId);
      await untilJob(own.member, jobId, 'cancelled');
    };
    const chatId = await converse(own, cancel, 1);
    expect(await storedSeries(own, chatId)).deep.equal((await expectedSeries()).slice(0, 1));
    return { documentId: null, jobId: alignmentWorkflowId(chatId) };
  },
};
