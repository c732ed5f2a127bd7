import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { expect } from 'chai';
import { type AnchorWordActivities, createAnchorWordActivities } from '#activities/anchoring.ts';
import type { ProposeAnchorWordsInput, ProposeAnchorWordsResult } from '#src/contracts/alignment.ts';
import { anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { aPublishedAgent } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('anchoring activities', () => {
  let own: Stack;
  let ada: Member;
  let model: ScriptedModel;
  let steps: AnchorWordActivities;

  before(async () => {
    // Without workers, so that only this test runs activities.
    model = await startScriptedModel();
    const settings = { OPENAI_BASE_URL: model.baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl };
    own = await startStack(settings, { workers: false });
    ada = await own.signUp();
    steps = createAnchorWordActivities(own.container);
  });
  after(async () => {
    await own.close();
    await model.close();
  });

  function propose(of: ProposeAnchorWordsInput, attempt = 1): Promise<ProposeAnchorWordsResult> {
    const environment = new MockActivityEnvironment({ attempt }, { logger: new DefaultLogger('ERROR') });
    return environment.run<[ProposeAnchorWordsInput], ProposeAnchorWordsResult, AnchorWordActivities['proposeWords']>(
      steps.proposeWords,
      of,
    );
  }

  const publish = async () => ({ orgId: ada.orgId, agentId: await aPublishedAgent(ada) });
  const agentOf = ({ agentId }: ProposeAnchorWordsInput) => own.container.db('agents').where({ id: agentId }).first();
  const jobOf = ({ agentId }: ProposeAnchorWordsInput) =>
    own.container
      .db('jobs')
      .where({ id: anchorWordsWorkflowId(agentId) })
      .first();

  it('wait for a worker, in a job of the agent’s readers', async () => {
    const of = await publish();
    const { acl, anchorWordCandidates } = await agentOf(of);
    expect(anchorWordCandidates).deep.equal([]);
    expect(await jobOf(of)).deep.include({ kind: 'anchors', status: 'queued', acl, agentId: of.agentId });
  });

  it('keep the first candidates when repeated or run concurrently', async () => {
    const of = await publish();
    const counts = await Promise.all([propose(of), propose(of)]);
    const { anchorWordCandidates } = await agentOf(of);
    expect(counts).deep.equal([{ count: anchorWordCandidates.length }, { count: anchorWordCandidates.length }]);
    model.behaveAnchoring(() => ({ kind: 'answer', text: '{"words": ["amortization"]}' }));
    await propose(of);
    expect((await agentOf(of)).anchorWordCandidates).deep.equal(anchorWordCandidates);
    expect(model.anchorRequests).deep.equal([]);
  });

  it('skip an agent that was deleted meanwhile', async () => {
    const of = await publish();
    await ada.delete(`/agents/${of.agentId}`, 204);
    expect(await propose(of)).deep.equal({ count: 0 });
    expect((await agentOf(of)).anchorWordCandidates).deep.equal([]);
  });

  it('retry an unavailable chat model for some attempts, and then continue without it', async () => {
    model.behaveAnchoring(() => ({ kind: 'status', status: 503 }));
    const of = await publish();
    expect(await appErrorCode(propose(of))).equal('model_unavailable');
    expect((await propose(of, 5)).count).within(24, 40);
  });

  it('continue at once without a chat model that rejects the request', async () => {
    model.behaveAnchoring(() => ({ kind: 'status', status: 400 }));
    expect((await propose(await publish())).count).within(24, 40);
  });

  it('retry the embedder without a limit of attempts', async () => {
    model.behaveAnchoring(null);
    const of = await publish();
    model.failEmbeddings(true);
    expect(await appErrorCode(propose(of, 100)).finally(() => model.failEmbeddings(false))).equal('model_unavailable');
    expect((await propose(of)).count).within(24, 40);
  });
});
