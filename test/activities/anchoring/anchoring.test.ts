import { expect } from 'chai';
import { createAnchorWordActivities } from '#activities/anchoring.ts';
import type { ProposeAnchorWordsInput, ProposeAnchorWordsResult } from '#src/contracts/alignment.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { aPublishedAgent } from '#test/support/builders.ts';
import { activityEnvironment } from '#test/support/ingestion-steps.ts';
import { useIdleStack } from '#test/support/stack.ts';

describe('proposing anchor words', () => {
  const own = useIdleStack({}, () => undefined);
  let of: ProposeAnchorWordsInput;
  beforeEach(async () => {
    own.model.behaveAnchoring(null);
    of = { orgId: own.ada.orgId, agentId: await aPublishedAgent(own.ada) };
  });

  function propose(attempt = 1): Promise<ProposeAnchorWordsResult> {
    const { proposeWords } = createAnchorWordActivities(own.container);
    return activityEnvironment({ attempt }).run(proposeWords as (of: unknown) => Promise<unknown>, of) as never;
  }
  const agentNow = () => own.db('agents').where({ id: of.agentId }).first();

  it('keeps the candidates of the first run when it is repeated or runs concurrently', async () => {
    const counts = await Promise.all([propose(), propose()]);
    const { anchorWordCandidates } = await agentNow();
    expect(counts).deep.equal([{ count: anchorWordCandidates.length }, { count: anchorWordCandidates.length }]);
    own.model.behaveAnchoring(() => ({ kind: 'answer', text: '{"words": ["amortization"]}' }));
    await propose();
    expect((await agentNow()).anchorWordCandidates).deep.equal(anchorWordCandidates);
    expect(own.model.anchorRequests).deep.equal([]);
  });

  it('skips an agent that was deleted before the proposal', async () => {
    await own.ada.delete(`/agents/${of.agentId}`, 204);
    expect(await propose()).deep.equal({ count: 0 });
    expect((await agentNow()).anchorWordCandidates).deep.equal([]);
  });

  it('succeeds without the chat model if the model rejects the request or stays down, but fails without the embedder', async () => {
    own.model.behaveAnchoring(() => ({ kind: 'status', status: 503 }));
    expect(await appErrorCode(propose())).equal('model_unavailable');
    expect((await propose(5)).count).within(24, 40);
    of.agentId = await aPublishedAgent(own.ada);
    own.model.failEmbeddings(true);
    expect(await appErrorCode(propose(100)).finally(() => own.model.failEmbeddings(false))).equal('model_unavailable');
    own.model.behaveAnchoring(() => ({ kind: 'status', status: 400 }));
    expect((await propose()).count).within(24, 40);
  });
});
