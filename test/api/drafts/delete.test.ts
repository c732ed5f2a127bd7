import { expect } from 'chai';
import { aColleague, aDraft, aDraftWithVersions, aSettledAgentOfDraft } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('DELETE /agent-drafts/{draft_id}', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  it('204: deletes the draft with all its versions, also if a user has hidden it', async () => {
    const { id, versions } = await aDraftWithVersions(ada, 3, { visibility: 'org_level' });
    const grace = await aColleague(shared, ada);
    await grace.post(`/agent-drafts/${id}/hide`, undefined, 204);
    await ada.delete(`/agent-drafts/${id}`, 204);
    await ada.get(`/agent-drafts/${id}`, 404);
    await ada.post('/agent-drafts', { source_version_id: versions[0]?.id }, 404);
    expect((await grace.get('/agent-drafts/hidden', 200)).body).to.deep.equal({ ids: [] });
  });

  it('204: keeps agents and forks that were made from the draft', async () => {
    const draft = await aDraft(ada);
    const agent = await aSettledAgentOfDraft(ada, draft);
    const fork = await aDraft(ada, { source_version_id: draft.head_version_id });
    await ada.delete(`/agent-drafts/${draft.id}`, 204);
    expect((await ada.get(`/agents/${agent.id}`, 200)).body).to.deep.equal({ ...agent, source_draft_id: draft.id });
    expect((await ada.get(`/agent-drafts/${fork.id}`, 200)).body).to.deep.equal(fork);
  });

  it('401: without a token', async () => {
    await shared.anonymous.delete(`/agent-drafts/${crypto.randomUUID()}`, 401);
  });

  it('403: rejects users who may only read the draft, including org admins', async () => {
    const grace = await aColleague(shared, ada);
    const { id } = await aDraft(grace, { visibility: 'org_level' });
    await ada.delete(`/agent-drafts/${id}`, 403);
    await grace.get(`/agent-drafts/${id}`, 200);
  });

  it('404: rejects deleted drafts and those of other organizations', async () => {
    const { id } = await aDraft(ada, { visibility: 'org_level' });
    await (await shared.signUp('Eve')).delete(`/agent-drafts/${id}`, 404);
    await ada.delete(`/agent-drafts/${id}`, 204);
    expect((await ada.delete(`/agent-drafts/${id}`, 404)).body).to.include({ code: 'draft_not_found' });
  });
});
