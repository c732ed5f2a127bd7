import { expect } from 'chai';
import { draftListSchema } from '#src/modules/drafts/drafts.schema.ts';
import {
  aColleague,
  aDraft,
  aDraftWithVersions,
  anAgentOfDraft,
  aSettledAgentOfDraft,
  aTeam,
  clerk,
  commitVersion,
  readDraft,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { itHoldsTheLimit, post } from '#test/support/exact-limit.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';

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

describe('drafts of agents', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  it('start personal, with a root version that has the defaults', async () => {
    const draft = await aDraft(ada, {});
    expect(draft).deep.include({ name: 'Untitled Draft', visibility: 'personal', next_version_number: 2 });
    expect(draft.versions).length(1);
    expect(draft.versions[0]).deep.include({
      ...{ id: draft.head_version_id, parent_version_id: null, title: 'v1', agent_name: '', chat_model: null },
      ...{ temperature: 0.7, max_tokens: 4096, anchor_words: {}, anchor_word_count: 0, eval_scores: null },
    });
  });

  it('store every field, also when forked by a reader, whose draft is personal, whatever else is sent', async () => {
    const source = await aDraft(ada, { ...fields, visibility: 'org_level' });
    const ignored = { agent_name: 'Ignored', color: 'red', temperature: 9, enabled_tools: ['none.such'], tags: 1 };
    const fork = await aDraft(grace, { source_version_id: source.head_version_id, ...ignored });
    expect(fork).include({ created_by: grace.userId, visibility: 'personal', name: 'Clerk' });
    for (const { versions } of [source, fork]) {
      expect(versions[0]).deep.include({ ...fields, anchor_word_count: 2, title: 'v1', parent_version_id: null });
    }
  });

  it('fork an agent without golden cases', async () => {
    const agent = await anAgentOfDraft(ada, await aDraft(ada, fields));
    const fork = await aDraft(ada, { source_agent_id: agent.id });
    expect(fork.versions[0]).deep.include({ ...fields, golden_cases: [] });
  });

  it('have no source that the caller may not read, and no team of others: 404', async () => {
    const { head_version_id } = await aDraft(ada, {});
    for (const [sent, code] of [
      [{ source_agent_id: crypto.randomUUID() }, 'agent_not_found'],
      [{ source_version_id: head_version_id }, 'version_not_found'],
      [{ visibility: 'team_level', team_ids: [await aTeam(ada)] }, 'team_not_found'],
    ] as const) {
      expect((await grace.post('/agent-drafts', sent, 404)).body).include({ code });
    }
  });

  it('have no two sources, no team visibility without teams, and no model that is not offered: 422', async () => {
    const id = crypto.randomUUID();
    for (const [sent, code] of [
      [{ source_agent_id: id, source_version_id: id }, 'validation_failed'],
      [{ visibility: 'team_level' }, 'validation_failed'],
      [{ chat_model: 'unheard-of' }, 'unknown_model'],
    ] as const) {
      expect((await ada.post('/agent-drafts', sent, 422)).body).include({ code });
    }
  });

  itHoldsTheLimit('draft_limit_reached', async (member) => () => post(member, '/agent-drafts', {}));

  it('are listed to their owner only, with the newest change first, whatever their visibility', async () => {
    const owner = await shared.signUp();
    const older = await aDraft(owner, { agent_name: 'Older', visibility: 'org_level' });
    const newer = await aDraft(owner, { agent_name: 'Newer' });
    await commitVersion(owner, older.id, { parent_version_id: older.head_version_id });
    const { items } = draftListSchema.parse((await owner.get('/agent-drafts', 200)).body);
    expect(items.map(({ id }) => id)).deep.equal([older.id, newer.id]);
    const colleague = await aColleague(shared, owner);
    expect((await colleague.get('/agent-drafts', 200)).body).deep.equal({ items: [] });
  });

  it('change who sees them with all versions, and leave published agents as they are', async () => {
    const draft = await aDraft(ada);
    const agent = await aSettledAgentOfDraft(ada, draft, { visibility: 'org_level' });
    const barbara = await aColleague(shared, ada, 'Barbara');
    const path = `/agent-drafts/${draft.id}`;
    const forTeam = { visibility: 'team_level', team_ids: [await aTeam(ada, [grace])] };
    const { body } = await ada.patch(`${path}/scope`, forTeam, 200);
    expect(body).deep.include(forTeam);
    expect(await readDraft(grace, draft.id)).deep.equal(body);
    await barbara.get(path, 404);
    await ada.patch(`${path}/scope`, { visibility: 'org_level' }, 200);
    await barbara.get(path, 200);
    const { body: personal } = await ada.patch(`${path}/scope`, { visibility: 'personal' }, 200);
    expect(personal).deep.include({ visibility: 'personal', team_ids: [] });
    await grace.get(path, 404);
    expect((await ada.get(`/agents/${agent.id}`, 200)).body).deep.equal(agent);
  });

  it('change to no team of others: 404, and to no visibility that does not go with its teams: 422', async () => {
    const { id } = await aDraft(grace);
    const teamIds = [await aTeam(ada)];
    const change = (body: object, status: number) => grace.patch(`/agent-drafts/${id}/scope`, body, status);
    const others = await change({ visibility: 'team_level', team_ids: teamIds }, 404);
    expect(others.body).include({ code: 'team_not_found' });
    for (const [wrong, path] of [
      [{}, 'visibility'],
      [{ visibility: 'team_level' }, 'team_ids'],
      [{ visibility: 'org_level', team_ids: teamIds }, 'team_ids'],
    ] as const) {
      expect((await change(wrong, 422)).body).nested.include({ 'errors[0].path': path });
    }
    expect(await readDraft(grace, id)).include({ visibility: 'personal' });
  });

  it('are hidden from the list of one user, as often as they ask, until they show them again', async () => {
    const [owner, barbara] = [await aColleague(shared, ada), await aColleague(shared, ada, 'Barbara')];
    const listed = async (member: Member) =>
      draftListSchema.parse((await member.get('/agent-drafts', 200)).body).items.map(({ id }) => id);
    const hidden = async (member: Member) => Object((await member.get('/agent-drafts/hidden', 200)).body).ids;
    const [own, others] = [await aDraft(barbara), await aDraft(owner, { visibility: 'org_level' })];
    await barbara.delete(`/agent-drafts/${own.id}/hide`, 204);
    for (const { id } of [own, own, others]) await barbara.post(`/agent-drafts/${id}/hide`, undefined, 204);
    expect(await listed(barbara)).deep.equal([]);
    expect(await hidden(barbara)).have.members([own.id, others.id]);
    expect([await listed(owner), await hidden(owner)]).deep.equal([[others.id], []]);
    await readDraft(barbara, own.id);
    await owner.patch(`/agent-drafts/${others.id}/scope`, { visibility: 'personal' }, 200);
    expect(await hidden(barbara), 'a draft that became unreadable').deep.equal([own.id]);
    await barbara.delete(`/agent-drafts/${own.id}/hide`, 204);
    expect([await listed(barbara), await hidden(barbara)]).deep.equal([[own.id], []]);
  });

  it('are deleted with all versions, also if hidden, but without agents and forks made of them', async () => {
    const draft = await aDraftWithVersions(ada, 3, { ...fields, visibility: 'org_level' });
    const agent = await aSettledAgentOfDraft(ada, draft);
    const fork = await aDraft(ada, { source_version_id: draft.head_version_id });
    await grace.post(`/agent-drafts/${draft.id}/hide`, undefined, 204);
    await ada.delete(`/agent-drafts/${draft.id}`, 204);
    await ada.get(`/agent-drafts/${draft.id}`, 404);
    await ada.delete(`/agent-drafts/${draft.id}`, 404);
    await ada.post('/agent-drafts', { source_version_id: draft.versions[0]?.id }, 404);
    expect((await grace.get('/agent-drafts/hidden', 200)).body).deep.equal({ ids: [] });
    expect((await ada.get(`/agents/${agent.id}`, 200)).body).deep.equal({ ...agent, source_draft_id: draft.id });
    expect(await readDraft(ada, fork.id)).deep.equal(fork);
  });
});

describe('versions of drafts', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const versionsOf = (draftId: string) => `/agent-drafts/${draftId}/versions`;
  const titlesOf = async (draftId: string) => (await readDraft(ada, draftId)).versions.map(({ title }) => title);

  it('of another or an unknown draft are answered with 404, whatever is asked of them', async () => {
    const [one, two] = [await aDraftWithVersions(ada, 2), await aDraft(ada)];
    const id = one.head_version_id;
    const requests: ((draftId: string) => ReturnType<Member['delete']>)[] = [
      (draftId) => ada.post(versionsOf(draftId), { parent_version_id: id }, 404),
      (draftId) => ada.patch(`${versionsOf(draftId)}/${id}`, { title: 'x' }, 404),
      (draftId) => ada.delete(`${versionsOf(draftId)}/${id}`, 404),
      (draftId) => ada.post(`/agent-drafts/${draftId}/publish`, { version_id: id }, 404),
      (draftId) => ada.get(`${versionsOf(draftId)}/${id}/eval/report`, 404),
    ];
    for (const request of requests) {
      expect((await request(crypto.randomUUID())).body).include({ code: 'draft_not_found' });
      expect((await request(two.id)).body).include({ code: 'version_not_found' });
    }
  });

  const parent = { ...clerk, tags: ['tax'], color: '#00aaff', golden_cases: [{ id: 'a', prompt: 'x' }] };
  const scores = { clarity: { score: 4 } };
  const empty = {
    ...{ agent_prompt: '', tags: [], color: null, icon_name: null, chat_model: null, anchor_words: {} },
    ...{ enabled_tools: [], golden_cases: [], temperature: 0 },
  };
  for (const [what, sent, stored] of [
    [
      'inherits what is not sent',
      { agent_name: '' },
      { tags: ['tax'], agent_name: '', title: 'v2', eval_scores: null },
    ],
    [
      'trims a title and keeps scores',
      { title: ' Calm ', eval_scores: scores },
      { title: 'Calm', eval_scores: scores },
    ],
    [
      'stores what is sent empty',
      { ...empty, icon_name: '', title: '  ' },
      { ...empty, title: 'v2', agent_name: 'Clerk' },
    ],
  ] as const) {
    it(`are committed: one ${what}`, async () => {
      const { id, head_version_id } = await aDraft(ada, parent);
      const version = await commitVersion(ada, id, { parent_version_id: head_version_id, ...sent });
      expect(version).deep.include({ ...stored, parent_version_id: head_version_id });
      const name = 'agent_name' in sent ? 'Untitled Draft' : 'Clerk';
      expect(await readDraft(ada, id)).include({ head_version_id: version.id, next_version_number: 3, name });
    });
  }

  it('are not committed to a parent with descendants: 409; by force they replace these', async () => {
    const draft = await aDraftWithVersions(ada, 3);
    const sent = { parent_version_id: draft.versions[0]?.id };
    const refused = await ada.post(versionsOf(draft.id), sent, 409);
    expect(refused.body).include({ code: 'version_has_descendants' });
    expect(await titlesOf(draft.id)).deep.equal(['v1', 'v2', 'v3']);
    const forced = await commitVersion(ada, draft.id, { ...sent, force: true });
    expect(await titlesOf(draft.id)).deep.equal(['v1', 'v4']);
    expect(await readDraft(ada, draft.id)).include({ head_version_id: forced.id, next_version_number: 5 });
  });

  it('are not committed above the limit: 409, unless they replace others', async () => {
    const limited = await startStack({ TIER_LIMITS: '{"free":{"versionsPerDraft":2}}' }, { workers: false });
    try {
      const member = await limited.signUp();
      const { id, versions, head_version_id } = await aDraftWithVersions(member, 2);
      const refused = await member.post(versionsOf(id), { parent_version_id: head_version_id }, 409);
      expect(refused.body).include({ code: 'version_limit_reached' });
      await commitVersion(member, id, { parent_version_id: versions[0]?.id, force: true });
    } finally {
      await limited.close();
    }
  });

  it('are not committed with a model that is not offered: 422', async () => {
    const { id, head_version_id } = await aDraft(ada);
    const sent = { parent_version_id: head_version_id, chat_model: 'unheard-of' };
    expect((await ada.post(versionsOf(id), sent, 422)).body).include({ code: 'unknown_model' });
  });

  it('are deleted but for the last one: 409, also of two concurrent deletions', async () => {
    const { id, versions } = await aDraftWithVersions(ada, 2);
    const paths = versions.map((version) => `${versionsOf(id)}/${version.id}`);
    const answers = await Promise.all(paths.map((path) => ada.raw(path, { method: 'DELETE' })));
    expect(answers.map(({ status }) => status).sort()).deep.equal([204, 409]);
    const { head_version_id } = await readDraft(ada, id);
    const refused = await ada.delete(`${versionsOf(id)}/${head_version_id}`, 409);
    expect(refused.body).include({ code: 'last_version' });
  });

  it('are published, as another agent each time, with the defaults of the deployment', async () => {
    const draft = await aDraft(ada);
    await commitVersion(ada, draft.id, {
      parent_version_id: draft.head_version_id,
      agent_name: 'Notary',
      tags: ['new'],
    });
    const agent = await anAgentOfDraft(ada, draft);
    expect(agent).deep.include({
      ...{ agent_name: 'Clerk', agent_prompt: 'Answer briefly.', tags: [], source_draft_id: draft.id },
      ...{ chat_model: shared.config.models.chatModel, visibility: 'personal', anchor_word_candidates: [] },
      ...{ user_off_topic_streak_threshold: 3, user_on_topic_streak_threshold: 2 },
      ...{ ready: true, has_chats: false, can_write: true },
    });
    expect((await anAgentOfDraft(ada, draft)).id).not.equal(agent.id);
  });

  it('are published in the scope of the draft unless one is sent', async () => {
    const scope = { visibility: 'team_level', team_ids: [await aTeam(ada)] };
    const draft = await aDraft(ada, { ...clerk, ...scope });
    expect(await anAgentOfDraft(ada, draft)).deep.include(scope);
    const forAll = await anAgentOfDraft(ada, draft, { visibility: 'org_level' });
    expect(forAll).deep.include({ visibility: 'org_level', team_ids: [] });
  });

  it('are published during concurrent commits to the same draft', async () => {
    const barbara = await shared.signUp('Barbara');
    const draft = await aDraft(barbara);
    const commit = { parent_version_id: draft.head_version_id, force: true };
    const replies = await Promise.all(
      Array.from({ length: 5 }, () => [
        post(barbara, versionsOf(draft.id), commit),
        post(barbara, `/agent-drafts/${draft.id}/publish`, { version_id: draft.head_version_id }),
      ]).flat(),
    );
    expect(replies.map(({ status }) => status)).deep.equal(Array(10).fill(201));
  });

  itHoldsTheLimit('agent_limit_reached', async (member) => {
    const { id, head_version_id } = await aDraft(member);
    return () => post(member, `/agent-drafts/${id}/publish`, { version_id: head_version_id });
  });

  it('are not published for a team of others (404), incomplete (409), or in a wrong scope (422)', async () => {
    const [ready, unready] = [await aDraft(ada), await aDraft(ada, { agent_name: 'Clerk' })];
    const team_ids = [crypto.randomUUID()];
    const publish = async (sent: object, status: number, draft = ready) => {
      const body = { version_id: draft.head_version_id, ...sent };
      return (await ada.post(`/agent-drafts/${draft.id}/publish`, body, status)).body;
    };
    const lacks = { 'errors[0].path': 'agent_prompt', 'errors[1].path': 'anchor_words' };
    expect(await publish({}, 409, unready)).nested.include({ code: 'not_ready', ...lacks });
    expect(await publish({ visibility: 'team_level', team_ids }, 404)).include({ code: 'team_not_found' });
    for (const scope of [{ visibility: 'team_level' }, { visibility: 'personal', team_ids }]) {
      expect(await publish(scope, 422)).nested.include({ 'errors[0].path': 'team_ids' });
    }
  });
});
