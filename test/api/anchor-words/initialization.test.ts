import { expect } from 'chai';
import { anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import { agentSchema } from '#src/modules/agents/agents.schema.ts';
import { anIngestedDocument, aPublishedAgent, loanAnchors } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('candidates for the anchor words of a published agent', () => {
  let stack: ScriptedStack;
  let ada: Member;
  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp();
  });
  afterEach(() => stack.model.behaveAnchoring(null));

  const candidatesOf = async (agentId: string) =>
    agentSchema.parse((await ada.get(`/agents/${agentId}`, 200)).body).anchor_word_candidates;

  it('exist soon after publishing and contain no chosen word', async () => {
    stack.model.behaveAnchoring(() => ({ kind: 'answer', text: '{"words": ["down payment", "mortgages"]}' }));
    const agentId = await aPublishedAgent(ada);
    await untilJob(ada, anchorWordsWorkflowId(agentId), 'succeeded');
    const words = await candidatesOf(agentId);
    expect(words).include('down payment').and.not.include.members(['mortgages']);
    for (const word of Object.keys(loanAnchors)) expect(words).not.include(word);
    expect(words).length.within(24, 40);
  });

  it('are shown to operators with the id of their agent', async () => {
    const agentId = await aPublishedAgent(ada);
    await untilJob(ada, anchorWordsWorkflowId(agentId), 'succeeded');
    const run = stack.container.temporal.client.workflow.getHandle(anchorWordsWorkflowId(agentId));
    await run.result();
    const attributes = (await run.describe()).typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]);
    expect(Object.fromEntries(attributes)).include({ AgentId: agentId, JobKind: 'anchors', Stage: 'done' });
  });

  it('contain no words of documents, which some users of the agent may not read', async () => {
    stack.model.behaveAnchoring(() => ({ kind: 'answer', text: '{"words": []}' }));
    await anIngestedDocument(ada, 'Loans', 'A flumbrium loan. The flumbrium loan of a bank is repaid late.');
    const agentId = await aPublishedAgent(ada);
    await untilJob(ada, anchorWordsWorkflowId(agentId), 'succeeded');
    expect((await candidatesOf(agentId)).join()).not.include('flumbrium');
    for (const { messages } of stack.model.anchorRequests) {
      expect(JSON.stringify(messages)).not.include('flumbrium');
    }
  });
});
