import { expect } from 'chai';
import { alignmentWorkflowId, anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import { alignmentCalibrationFor } from '#src/domain/alignment/score.ts';
import { aPublishedAgent, ask } from '#test/support/builders.ts';
import type { FaultCase } from '#test/support/fault-case.ts';
import { testServices } from '#test/support/services.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';
import { judgeDialogues } from '../../bench/alignment/dialogue-quality.ts';
import { readDialogues } from '../../bench/alignment/dialogues.ts';
import { createEmbedTexts } from '../../scripts/alignment/embed-texts.ts';
import { cancel, retryUntilDone, type Scenario } from './scenario.ts';

const embeddingModel = 'all-minilm-l6-v2-int8-r2';

/** A conversation that loses its topic and comes back to it. */
const dialogue = readDialogues('dialogues').filter(
  ({ agent, script }) => agent.name.startsWith('Air') && script === 'return',
);

/** Checks the state and trend of each stored round against those that follow from the texts alone. */
async function expectSeries(stored: readonly { echoState: string; ewma: unknown }[]): Promise<void> {
  const embed = createEmbedTexts({ baseUrl: testServices().modelBaseUrl, model: embeddingModel });
  const judged = await judgeDialogues(dialogue, embed, alignmentCalibrationFor(embeddingModel));
  const expected = judged.map(({ state }) => `${state.shown} ${state.ewma.toFixed(3)}`).slice(0, stored.length);
  expect(stored.map(({ echoState, ewma }) => `${echoState} ${Number(ewma).toFixed(3)}`)).deep.equal(expected);
}

/**
 * Says all of the dialogue, or its beginning, and checks its scores. The last round is said once those before are scored:
 * a title that was given up for one run is made by the next.
 */
async function converse(
  own: FaultCase,
  untilScored: (jobId: string) => Promise<unknown>,
  rounds = Number.POSITIVE_INFINITY,
): Promise<{ jobId: string; chatId: string }> {
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
  const stored = await own.stack.container.db('rounds').where({ chatId }).orderBy('round');
  expect(stored).length(wanted.length);
  await expectSeries(stored);
  return { jobId: alignmentWorkflowId(chatId), chatId };
}

/** The series is that of the texts, and the chat has its title. */
export const scoreChat: Scenario = {
  drive: async (own) => {
    const { chatId, jobId } = await converse(own, (job) => untilJob(own.member, job, 'succeeded'));
    const chat = () => own.stack.container.db('chats').where({ id: chatId }).first();
    await until('it has its title', async () => (await chat()).titleSource === 'generated');
    return { jobId };
  },
};

export const failScoring: Scenario = {
  faults: 'scoreNextRound:before:throw:blob_missing',
  drive: (own) => converse(own, (jobId) => retryUntilDone(own, jobId)),
};

/** A round that was scored when the job was cancelled keeps its score. */
export const cancelScoring: Scenario = {
  faults: 'scoreNextRound:after_effect:hang',
  drive: (own) => {
    const scored = () => own.stack.container.db('rounds').whereNotNull('scoredAt');
    const cancelOnceScored = async (jobId: string) => {
      await until('the round is scored', async () => (await scored()).length > 0);
      await cancel(own, jobId);
    };
    return converse(own, cancelOnceScored, 1);
  },
};
