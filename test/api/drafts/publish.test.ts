import { expect } from 'chai';
import { aColleague, aDraft, anAgentOfDraft, aTeam, clerk, commitVersion } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { itHoldsTheLimit, post } from '#test/support/exact-limit.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('POST /agent-drafts/{draft_id}/publish', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  it('201: publishes a version with the defaults of the deployment', async () => {
    const draft = await aDraft(ada);
    const agent = await anAgentOfDraft(ada, draft);
    expect(agent).to.include({
      agent_name: 'Clerk',
      agent_prompt: 'Answer briefly.',
      chat_model: shared.config.models.chatModel,
      user_off_topic_streak_threshold: 3,
      user_on_topic_streak_threshold: 2,
      visibility: 'personal',
      source_draft_id: draft.id,
      ready: true,
      has_chats: false,
      can_write: true,
    });
    expect(agent.anchor_word_candidates).to.deep.equal([]);
  });

  it('201: publishes any version, not only the head', async () => {
    const draft = await aDraft(ada);
    await commitVersion(ada, draft.id, {
      parent_version_id: draft.head_version_id,
      agent_name: 'Notary',
      tags: ['new'],
    });
    expect(await anAgentOfDraft(ada, draft)).to.deep.include({ agent_name: 'Clerk', tags: [] });
  });

  it('201: publishes another agent when repeated, and the same one for the same Idempotency-Key', async () => {
    const draft = await aDraft(ada);
    expect((await anAgentOfDraft(ada, draft)).id).not.to.equal((await anAgentOfDraft(ada, draft)).id);
    const path = `/agent-drafts/${draft.id}/publish`;
    const again = () => ada.post(path, { version_id: draft.head_version_id }, 201, { 'Idempotency-Key': draft.id });
    expect((await again()).body).to.deep.equal((await again()).body);
  });

  it('201: uses the scope of the draft unless one is sent', async () => {
    const team = await aTeam(ada);
    const draft = await aDraft(ada, { ...clerk, visibility: 'team_level', team_ids: [team] });
    expect(await anAgentOfDraft(ada, draft)).to.deep.include({ visibility: 'team_level', team_ids: [team] });
    expect(await anAgentOfDraft(ada, draft, { visibility: 'org_level' })).to.deep.include({
      visibility: 'org_level',
      team_ids: [],
    });
  });

  it('201: publishes during concurrent commits to the same draft', async () => {
    const barbara = await shared.signUp('Barbara');
    const draft = await aDraft(barbara);
    const commit = { parent_version_id: draft.head_version_id, force: true };
    const replies = await Promise.all(
      Array.from({ length: 5 }, () => [
        post(barbara, `/agent-drafts/${draft.id}/versions`, commit),
        post(barbara, `/agent-drafts/${draft.id}/publish`, { version_id: draft.head_version_id }),
      ]).flat(),
    );
    expect(replies.map(({ status }) => status)).to.deep.equal(Array(10).fill(201));
  });

  itHoldsTheLimit('agent_limit_reached', async (member) => {
    const { id, head_version_id } = await aDraft(member);
    return () => post(member, `/agent-drafts/${id}/publish`, { version_id: head_version_id });
  });

  it('401: without a token', async () => {
    await shared.anonymous.post(`/agent-drafts/${crypto.randomUUID()}/publish`, {}, 401);
  });

  it('403: rejects a user who may only read the draft', async () => {
    const draft = await aDraft(ada, { ...clerk, visibility: 'org_level' });
    const grace = await aColleague(shared, ada);
    await grace.post(`/agent-drafts/${draft.id}/publish`, { version_id: draft.head_version_id }, 403);
  });

  it('404: rejects an unknown draft, version or team', async () => {
    const [one, two] = [await aDraft(ada), await aDraft(ada)];
    const sent = { version_id: one.head_version_id };
    const codeAt = async (draftId: string, body: object) =>
      (await ada.post(`/agent-drafts/${draftId}/publish`, body, 404)).body;
    expect(await codeAt(crypto.randomUUID(), sent)).to.include({ code: 'draft_not_found' });
    expect(await codeAt(two.id, sent)).to.include({ code: 'version_not_found' });
    const team = { visibility: 'team_level', team_ids: [crypto.randomUUID()] };
    expect(await codeAt(one.id, { ...sent, ...team })).to.include({ code: 'team_not_found' });
  });

  it('409: lists what a version lacks', async () => {
    const draft = await aDraft(ada, { agent_name: 'Clerk' });
    const { body } = await ada.post(`/agent-drafts/${draft.id}/publish`, { version_id: draft.head_version_id }, 409);
    expect(body).to.nested.include({
      code: 'not_ready',
      'errors[0].path': 'agent_prompt',
      'errors[1].path': 'anchor_words',
    });
  });

  it('422: rejects teams without team_level, and team_level without teams', async () => {
    const draft = await aDraft(ada);
    for (const wrong of [
      { visibility: 'team_level' },
      { visibility: 'personal', team_ids: [crypto.randomUUID()] },
      { visibility: 'public' },
      { name: 'x' },
    ]) {
      await ada.post(`/agent-drafts/${draft.id}/publish`, { version_id: draft.head_version_id, ...wrong }, 422);
    }
  });
});
