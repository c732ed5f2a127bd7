import { expect } from 'chai';
import { aColleague, aDraft, aSettledAgentOfDraft, aTeam, clerk } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('PATCH /agents/{agent_id}', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  const newAgent = async (scope: object = {}, member = ada) =>
    aSettledAgentOfDraft(member, await aDraft(member, { ...clerk, tags: ['law'], color: '#00aaff', ...scope }));

  it('200: changes display fields and tools; fields that are not sent stay', async () => {
    const agent = await newAgent();
    const change = { agent_name: 'Notary', tags: [], icon_name: 'scale', enabled_tools: [] };
    const { body } = await ada.patch(`/agents/${agent.id}`, change, 200);
    expect(body).to.deep.equal({ ...agent, ...change, updated_at: Object(body).updated_at });
    expect(body).not.to.include({ updated_at: agent.updated_at });
    expect((await ada.patch(`/agents/${agent.id}`, { color: '', icon_name: null }, 200)).body).to.include({
      agent_name: 'Notary',
      color: null,
      icon_name: null,
    });
  });

  it('200: lets admins of the team of the agent change it', async () => {
    const team = await aTeam(ada);
    const admin = await aColleague(shared, ada, 'Barbara', { team_id: team, is_team_admin: true });
    const { id } = await newAgent({ visibility: 'team_level', team_ids: [team] });
    await admin.patch(`/agents/${id}`, { agent_name: 'Ours' }, 200);
  });

  it('401: without a token', async () => {
    await shared.anonymous.patch(`/agents/${crypto.randomUUID()}`, {}, 401);
  });

  it('403: rejects a user who may only use the agent', async () => {
    const { id } = await newAgent({ visibility: 'org_level' });
    await grace.patch(`/agents/${id}`, { agent_name: 'Mine' }, 403);
  });

  it('404: rejects unknown agents, and personal agents of other users', async () => {
    const { id } = await newAgent({}, grace);
    expect((await ada.patch(`/agents/${id}`, {}, 404)).body).to.include({ code: 'agent_not_found' });
    await ada.patch(`/agents/${crypto.randomUUID()}`, {}, 404);
  });

  it('412: rejects an outdated If-Match, also of two concurrent requests', async () => {
    const { id } = await newAgent();
    const etag = (await ada.get(`/agents/${id}`, 200)).headers.get('etag') ?? '';
    const headers = { 'content-type': 'application/json', 'if-match': etag };
    const answers = await Promise.all(
      ['One', 'Two'].map((agent_name) =>
        ada.raw(`/agents/${id}`, { method: 'PATCH', headers, body: JSON.stringify({ agent_name }) }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).to.deep.equal([200, 412]);
  });

  it('422: says of what was published that it is immutable', async () => {
    const { id, ...published } = await newAgent();
    for (const field of [
      'agent_prompt',
      'chat_model',
      'temperature',
      'max_tokens',
      'visibility',
      'team_ids',
      'user_off_topic_streak_threshold',
      'user_on_topic_streak_threshold',
    ] as const) {
      const { body } = await ada.patch(`/agents/${id}`, { agent_name: 'x', [field]: published[field] }, 422);
      expect(body).to.nested.include({ 'errors[0].path': field, 'errors[0].code': 'immutable' });
    }
    const { body } = await ada.patch(`/agents/${id}`, { anchor_words: null }, 422);
    expect(body).to.nested.include({ detail: 'anchor_words: is immutable: publish another version instead' });
    expect((await ada.get(`/agents/${id}`, 200)).body).to.deep.equal({ id, ...published });
  });

  it('422: rejects invalid and unknown fields and unknown tools', async () => {
    const { id } = await newAgent();
    for (const [wrong, path] of [
      [{ agent_name: null }, 'agent_name'],
      [{ tags: [''] }, 'tags.0'],
      [{ color: 'blue' }, 'color'],
      [{ icon_name: 'two\nlines' }, 'icon_name'],
      [{ enabled_tools: ['no.such.tool'] }, 'enabled_tools'],
      [{ created_by: crypto.randomUUID() }, 'created_by'],
    ] as const) {
      const { body } = await ada.patch(`/agents/${id}`, wrong, 422);
      expect(body).to.nested.include({ 'errors[0].path': path });
    }
  });
});
