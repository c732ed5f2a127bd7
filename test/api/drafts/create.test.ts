import { expect } from 'chai';
import { agentSchema } from '#src/modules/agents/agents.schema.ts';
import { draftDetailSchema } from '#src/modules/drafts/drafts.schema.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { itHoldsTheLimit, post } from '#test/support/exact-limit.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const fields = {
  agent_name: 'Clerk',
  agent_prompt: 'Answer questions about taxes.',
  tags: ['law', 'tax'],
  color: '#00aaff',
  icon_name: 'scale',
  temperature: 0.2,
  max_tokens: 500,
  anchor_words: { 'value added tax': 7, invoice: 3 },
  golden_cases: [{ id: 'one', prompt: 'What is VAT?', reference_answer: 'A tax.' }],
};

describe('POST /agent-drafts', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const create = async (body: object, member = ada) =>
    draftDetailSchema.parse((await member.post('/agent-drafts', body, 201)).body);

  it('201: starts a personal draft whose root version has the defaults', async () => {
    const draft = await create({});
    expect(draft).to.deep.include({ name: 'Untitled Draft', visibility: 'personal', next_version_number: 2 });
    expect(draft.versions).to.have.length(1);
    expect(draft.versions[0]).to.deep.include({
      id: draft.head_version_id,
      parent_version_id: null,
      title: 'v1',
      agent_name: '',
      temperature: 0.7,
      max_tokens: 4096,
      chat_model: null,
      anchor_words: {},
      anchor_word_count: 0,
      eval_scores: null,
    });
  });

  it('201: stores every field', async () => {
    const draft = await create(fields);
    expect(draft.name).to.equal('Clerk');
    expect(draft.versions[0]).to.deep.include({ ...fields, anchor_word_count: 2 });
  });

  it('201: forks a version of a readable draft into a draft of the caller', async () => {
    const source = await create({ ...fields, visibility: 'org_level' });
    const grace = await aColleague(shared, ada);
    const fork = await create({ source_version_id: source.head_version_id, agent_name: 'Ignored' }, grace);
    expect(fork).to.include({ created_by: grace.userId, visibility: 'personal', name: 'Clerk' });
    expect(fork.versions[0]).to.deep.include({ ...fields, title: 'v1', parent_version_id: null });
  });

  it('201: ignores invalid fields of a fork', async () => {
    const { head_version_id } = await create(fields);
    const wrong = { color: 'red', temperature: 9, enabled_tools: ['none.such'], anchor_words: { a: 99 }, tags: 1 };
    expect((await create({ source_version_id: head_version_id, ...wrong })).versions[0]).to.deep.include(fields);
  });

  it('201: forks an agent without golden cases', async () => {
    const source = await create(fields);
    const published = await ada.post(`/agent-drafts/${source.id}/publish`, { version_id: source.head_version_id }, 201);
    const fork = await create({ source_agent_id: agentSchema.parse(published.body).id });
    expect(fork.versions[0]).to.deep.include({ ...fields, golden_cases: [] });
  });

  it('201: shares the draft with teams of the caller', async () => {
    const grace = await aColleague(shared, ada);
    const team = await aTeam(ada, [grace]);
    const draft = await create({ visibility: 'team_level', team_ids: [team] }, grace);
    expect(draft).to.deep.include({ visibility: 'team_level', team_ids: [team] });
  });

  it('201: returns the same draft for the same Idempotency-Key', async () => {
    const again = () => ada.post('/agent-drafts', fields, 201, { 'Idempotency-Key': `create-${ada.userId}` });
    expect((await again()).body).to.deep.equal((await again()).body);
  });

  it('401: without a token', async () => {
    await shared.anonymous.post('/agent-drafts', {}, 401);
  });

  it('404: rejects an unknown or unreadable source', async () => {
    const { head_version_id } = await create({});
    const grace = await aColleague(shared, ada);
    const unknownAgent = await grace.post('/agent-drafts', { source_agent_id: crypto.randomUUID() }, 404);
    expect(unknownAgent.body).to.include({ code: 'agent_not_found' });
    const foreign = await grace.post('/agent-drafts', { source_version_id: head_version_id }, 404);
    expect(foreign.body).to.include({ code: 'version_not_found' });
  });

  it('404: rejects a team that the caller does not belong to', async () => {
    const grace = await aColleague(shared, ada);
    const team = await aTeam(ada);
    const { body } = await grace.post('/agent-drafts', { visibility: 'team_level', team_ids: [team] }, 404);
    expect(body).to.include({ code: 'team_not_found' });
  });

  itHoldsTheLimit('draft_limit_reached', async (member) => () => post(member, '/agent-drafts', {}));

  it('422: with two sources, without teams, or with a model that is not offered', async () => {
    const id = crypto.randomUUID();
    await ada.post('/agent-drafts', { source_agent_id: id, source_version_id: id }, 422);
    await ada.post('/agent-drafts', { visibility: 'team_level' }, 422);
    const { body } = await ada.post('/agent-drafts', { chat_model: 'unheard-of' }, 422);
    expect(body).to.include({ code: 'unknown_model' });
  });

  it('422: rejects invalid fields', async () => {
    for (const wrong of [
      { temperature: 2.1 },
      { max_tokens: 0 },
      { color: 'blue' },
      { anchor_words: { tax: 11 } },
      { anchor_words: { 'one two three four': 1 } },
      { anchor_words: Object.fromEntries(Array.from({ length: 201 }, (_, n) => [`word${n}`, 1])) },
      { enabled_tools: ['no.such.tool'] },
      {
        golden_cases: [
          { id: 'a', prompt: 'x' },
          { id: 'a', prompt: 'y' },
        ],
      },
      { agent_prompt: 'a\0b' },
      { head: 1 },
    ]) {
      await ada.post('/agent-drafts', wrong, 422);
    }
  });
});
