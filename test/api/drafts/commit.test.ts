import { expect } from 'chai';
import { aColleague, aDraft, commitVersion, readDraft } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';

const fields = { agent_name: 'Clerk', agent_prompt: 'Answer briefly.', tags: ['tax'], anchor_words: { tax: 5 } };

describe('POST /agent-drafts/{draft_id}/versions', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  it('201: inherits what is not sent and overwrites with what is sent empty', async () => {
    const draft = await aDraft(ada, fields);
    const version = await commitVersion(ada, draft.id, {
      parent_version_id: draft.head_version_id,
      agent_name: '',
      tags: [],
    });
    expect(version).to.deep.include({ ...fields, agent_name: '', tags: [], title: 'v2', eval_scores: null });
    expect(version.parent_version_id).to.equal(draft.head_version_id);
    const after = await readDraft(ada, draft.id);
    expect(after).to.include({ head_version_id: version.id, next_version_number: 3, name: 'Untitled Draft' });
  });

  it('201: stores a title and preview scores', async () => {
    const draft = await aDraft(ada, fields);
    const sent = { title: ' Calm ', eval_scores: { clarity: { score: 4 } } };
    const version = await commitVersion(ada, draft.id, { parent_version_id: draft.head_version_id, ...sent });
    expect(version).to.deep.include({ title: 'Calm', eval_scores: sent.eval_scores });
  });

  it('201: by force replaces the descendants, and the number goes on', async () => {
    const draft = await aDraft(ada, fields);
    const root = draft.head_version_id;
    const second = await commitVersion(ada, draft.id, { parent_version_id: root });
    await commitVersion(ada, draft.id, { parent_version_id: second.id });
    const forced = await commitVersion(ada, draft.id, { parent_version_id: root, force: true });
    expect(forced.title).to.equal('v4');
    const after = await readDraft(ada, draft.id);
    expect(after.versions.map(({ title }) => title)).to.deep.equal(['v1', 'v4']);
    expect(after).to.include({ head_version_id: forced.id, next_version_number: 5 });
  });

  it('201: stores fields that are sent empty or null', async () => {
    const parent = { ...fields, color: '#00aaff', icon_name: 'scale', golden_cases: [{ id: 'a', prompt: 'x' }] };
    const { id, head_version_id } = await aDraft(ada, parent);
    const empty = { agent_prompt: '', tags: [], color: null, icon_name: '', chat_model: null, anchor_words: {} };
    const sent = { ...empty, enabled_tools: [], golden_cases: [], temperature: 0, eval_scores: null, title: '  ' };
    const version = await commitVersion(ada, id, { parent_version_id: head_version_id, ...sent });
    expect(version).to.deep.include({ ...sent, icon_name: null, title: 'v2', agent_name: 'Clerk' });
  });

  it('201: returns the same version for the same Idempotency-Key', async () => {
    const { id, head_version_id } = await aDraft(ada, fields);
    const sent = { parent_version_id: head_version_id };
    const again = () => ada.post(`/agent-drafts/${id}/versions`, sent, 201, { 'Idempotency-Key': id });
    expect((await again()).body).to.deep.equal((await again()).body);
    expect((await readDraft(ada, id)).versions).to.have.length(2);
  });

  it('401: without a token', async () => {
    await shared.anonymous.post(`/agent-drafts/${crypto.randomUUID()}/versions`, {}, 401);
  });

  it('403: rejects a user who may only read the draft', async () => {
    const draft = await aDraft(ada, { ...fields, visibility: 'org_level' });
    const grace = await aColleague(shared, ada);
    await grace.get(`/agent-drafts/${draft.id}`, 200);
    await grace.post(`/agent-drafts/${draft.id}/versions`, { parent_version_id: draft.head_version_id }, 403);
  });

  it('404: rejects an unknown draft or parent', async () => {
    const [one, two] = [await aDraft(ada, fields), await aDraft(ada, fields)];
    const path = (draftId: string) => `/agent-drafts/${draftId}/versions`;
    const sent = { parent_version_id: one.head_version_id };
    expect((await ada.post(path(crypto.randomUUID()), sent, 404)).body).to.include({ code: 'draft_not_found' });
    expect((await ada.post(path(two.id), sent, 404)).body).to.include({ code: 'version_not_found' });
    await (await shared.signUp('Eve')).post(path(one.id), sent, 404);
  });

  it('409: rejects a parent with descendants unless forced', async () => {
    const draft = await aDraft(ada, fields);
    const sent = { parent_version_id: draft.head_version_id };
    await commitVersion(ada, draft.id, sent);
    const { body } = await ada.post(`/agent-drafts/${draft.id}/versions`, sent, 409);
    expect(body).to.include({ code: 'version_has_descendants' });
    expect((await readDraft(ada, draft.id)).versions).to.have.length(2);
  });

  it('409: at the limit of versions', async () => {
    const limited = await startStack({ TIER_LIMITS: '{"free":{"versionsPerDraft":2}}' }, { workers: false });
    try {
      const member = await limited.signUp();
      const draft = await aDraft(member, {});
      const second = await commitVersion(member, draft.id, { parent_version_id: draft.head_version_id });
      const path = `/agent-drafts/${draft.id}/versions`;
      const { body } = await member.post(path, { parent_version_id: second.id }, 409);
      expect(body).to.include({ code: 'version_limit_reached' });
      await member.post(path, { parent_version_id: draft.head_version_id, force: true }, 201);
    } finally {
      await limited.close();
    }
  });

  it('422: rejects a missing parent, a long title and a model that is not offered', async () => {
    const draft = await aDraft(ada, fields);
    const path = `/agent-drafts/${draft.id}/versions`;
    const parent = { parent_version_id: draft.head_version_id };
    for (const wrong of [{}, { ...parent, title: 'x'.repeat(257) }, { ...parent, chat_model: 'unheard-of' }]) {
      await ada.post(path, wrong, 422);
    }
  });
});
