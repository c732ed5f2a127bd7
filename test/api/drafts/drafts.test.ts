import { expect } from 'chai';
import fc from 'fast-check';
import { type AgentDto, agentSchema } from '#src/modules/agents/agents.schema.ts';
import { type DraftDto, draftListSchema } from '#src/modules/drafts/drafts.schema.ts';
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
import { itHoldsTheLimit, post } from '#test/support/concurrent-requests.ts';
import { propertyRuns } from '#test/support/seeded.ts';
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

  it('start personal, with a root version that has the default values', async () => {
    const draft = await aDraft(ada, {});
    expect(draft).deep.include({ name: 'Untitled Draft', visibility: 'personal', next_version_number: 2 });
    expect(draft.versions).length(1);
    expect(draft.versions[0]).deep.include({
      ...{ id: draft.head_version_id, parent_version_id: null, title: 'v1', agent_name: '', chat_model: null },
      ...{ temperature: 0.7, max_tokens: 4096, anchor_words: {}, anchor_word_count: 0, eval_scores: null },
    });
  });

  it('store every field, also in a fork by a reader, which is personal whatever the request says', async () => {
    const source = await aDraft(ada, { ...fields, visibility: 'org_level' });
    const ignored = { agent_name: 'Ignored', color: 'red', temperature: 9, enabled_tools: ['none.such'], tags: 1 };
    const fork = await aDraft(grace, { source_version_id: source.head_version_id, ...ignored });
    expect(fork).include({ created_by: grace.userId, visibility: 'personal', name: 'Clerk' });
    for (const { versions } of [source, fork]) {
      expect(versions[0]).deep.include({ ...fields, anchor_word_count: 2, title: 'v1', parent_version_id: null });
    }
  });

  it('that are forked from an agent have no golden cases', async () => {
    const agent = await anAgentOfDraft(ada, await aDraft(ada, fields));
    const fork = await aDraft(ada, { source_agent_id: agent.id });
    expect(fork.versions[0]).deep.include({ ...fields, golden_cases: [] });
  });

  it('reject a source, team or model that the owner cannot use, and teams that do not fit the visibility', async () => {
    const [{ head_version_id: foreign }, { id, head_version_id }] = [await aDraft(ada, {}), await aDraft(grace)];
    const unknown = crypto.randomUUID();
    const forOthers = { visibility: 'team_level', team_ids: [await aTeam(ada)] };
    const create = (sent: object, status: number) => grace.post('/agent-drafts', sent, status);
    const change = (sent: object, status: number) => grace.patch(`/agent-drafts/${id}/scope`, sent, status);
    const commit = (sent: object, status: number) =>
      grace.post(`/agent-drafts/${id}/versions`, { parent_version_id: head_version_id, ...sent }, status);
    for (const [ask, sent, status, expected] of [
      [create, { source_agent_id: unknown }, 404, { code: 'agent_not_found' }],
      [create, { source_version_id: foreign }, 404, { code: 'version_not_found' }],
      [create, forOthers, 404, { code: 'team_not_found' }],
      [change, forOthers, 404, { code: 'team_not_found' }],
      [create, { source_agent_id: unknown, source_version_id: unknown }, 422, { code: 'validation_failed' }],
      [create, { visibility: 'team_level' }, 422, { code: 'validation_failed' }],
      [create, { chat_model: 'unheard-of' }, 422, { code: 'unknown_model' }],
      [commit, { chat_model: 'unheard-of' }, 422, { code: 'unknown_model' }],
      [change, {}, 422, { 'errors[0].path': 'visibility' }],
      [change, { visibility: 'team_level' }, 422, { 'errors[0].path': 'team_ids' }],
      [change, { ...forOthers, visibility: 'org_level' }, 422, { 'errors[0].path': 'team_ids' }],
    ] as const) {
      expect((await ask(sent, status)).body).nested.include(expected);
    }
    expect(await readDraft(grace, id)).include({ visibility: 'personal', head_version_id });
  });

  itHoldsTheLimit('draft_limit_reached', async (member) => () => post(member, '/agent-drafts', {}));

  it('are listed to their owner only, newest change first, even if others may read them', async () => {
    const owner = await shared.signUp();
    const older = await aDraft(owner, { agent_name: 'Older', visibility: 'org_level' });
    const newer = await aDraft(owner, { agent_name: 'Newer' });
    await commitVersion(owner, older.id, { parent_version_id: older.head_version_id });
    const { items } = draftListSchema.parse((await owner.get('/agent-drafts', 200)).body);
    expect(items.map(({ id }) => id)).deep.equal([older.id, newer.id]);
    const colleague = await aColleague(shared, owner);
    expect((await colleague.get('/agent-drafts', 200)).body).deep.equal({ items: [] });
  });

  it('can get another visibility for all versions, while published agents keep theirs', async () => {
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

  it('can be hidden by a user from their own list, also repeatedly, and be shown again', async () => {
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

  it('are deleted with all versions, also when hidden, while agents and forks made of them stay', async () => {
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
  const _titlesOf = async (draftId: string) => (await readDraft(ada, draftId)).versions.map(({ title }) => title);

  it('are not found (404) by any operation under another or an unknown draft', async () => {
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

  it('are committed with the fields that are sent, also empty ones, and inherit the other fields', async () => {
    const inherited = {
      tags: ['tax'],
      color: '#00aaff',
      golden_cases: [{ id: 'a', prompt: 'x', reference_answer: '' }],
    };
    const { id, head_version_id: parent_version_id } = await aDraft(ada, { ...clerk, ...inherited });
    const scored = { eval_scores: { clarity: { score: 4 } }, agent_name: '' };
    const second = await commitVersion(ada, id, { parent_version_id, ...scored, title: ' Calm ' });
    expect(second).deep.include({ ...inherited, ...scored, title: 'Calm', parent_version_id });
    expect(await readDraft(ada, id)).include({ head_version_id: second.id, name: 'Untitled Draft' });
    const empty = {
      ...{ agent_prompt: '', tags: [], color: null, chat_model: null, anchor_words: {} },
      ...{ enabled_tools: [], golden_cases: [], temperature: 0 },
    };
    const third = await commitVersion(ada, id, { parent_version_id: second.id, ...empty, icon_name: '', title: '  ' });
    expect(third).deep.include({ ...empty, icon_name: null, title: 'v3', agent_name: '', eval_scores: null });
  });

  it('are not committed above the version limit (409), unless they replace other versions', async () => {
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

  it('are published as a new agent each time, with the defaults of the deployment', async () => {
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

  it('are published with the visibility of the draft unless the request sends another', async () => {
    const scope = { visibility: 'team_level', team_ids: [await aTeam(ada)] };
    const draft = await aDraft(ada, { ...clerk, ...scope });
    expect(await anAgentOfDraft(ada, draft)).deep.include(scope);
    const forAll = await anAgentOfDraft(ada, draft, { visibility: 'org_level' });
    expect(forAll).deep.include({ visibility: 'org_level', team_ids: [] });
  });

  itHoldsTheLimit('agent_limit_reached', async (member) => {
    const { id, head_version_id } = await aDraft(member);
    return () => post(member, `/agent-drafts/${id}/publish`, { version_id: head_version_id });
  });

  it('are not published for a foreign team (404), incomplete (409), or with a wrong visibility (422)', async () => {
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

const kinds = ['commit', 'commit', 'force', 'delete', 'delete', 'rename', 'fork', 'publish', 'deleteDraft'] as const;
/** A random change of a draft or version, which are chosen by position among the existing ones; most often the head. */
const anyStep = fc.record({
  kind: fc.constantFrom(...kinds),
  draft: fc.nat(3),
  version: fc.oneof(fc.nat(7), fc.constant(-1)),
  name: fc.constantFrom('', 'Clerk', 'Notary', ' '),
});
type Step = { kind: (typeof kinds)[number]; draft: number; version: number; name: string };

/** Expected state of a draft, computed from the changes alone. */
type Expected = { id: string; next: number; versions: { id: string; title: string; name: string }[] };

const stateOf = ({ id, next_version_number, versions }: DraftDto): Expected => {
  const each = versions.map((version) => ({ id: version.id, title: version.title, name: version.agent_name }));
  return { id, next: next_version_number, versions: each };
};

describe('a draft under random sequences of changes', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    await shared.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
  });

  async function take({ kind, name, ...step }: Step, drafts: Expected[], agents: AgentDto[]): Promise<void> {
    const draft = drafts[step.draft % drafts.length];
    const count = draft?.versions.length ?? 0;
    const index = step.version < 0 ? count - 1 : step.version % count;
    const version = draft?.versions[index];
    if (draft === undefined || version === undefined) throw new Error('a draft without versions');
    const path = `/agent-drafts/${draft.id}/versions`;
    if (kind === 'commit' || kind === 'force') {
      const sent = { parent_version_id: version.id, agent_name: name, force: kind === 'force' };
      if (kind === 'commit' && index < count - 1) {
        await ada.post(path, sent, 409);
        return;
      }
      const { id, title } = await commitVersion(ada, draft.id, sent);
      expect(title).equal(`v${draft.next}`);
      draft.versions.splice(index + 1, Number.POSITIVE_INFINITY, { id, title, name });
      draft.next += 1;
    } else if (kind === 'delete') {
      await ada.delete(`${path}/${version.id}`, count === 1 ? 409 : 204);
      if (count > 1) draft.versions.splice(index, 1);
    } else if (kind === 'rename') {
      version.title = `Renamed ${draft.next}`;
      const { body } = await ada.patch(`${path}/${version.id}`, { title: ` ${version.title} ` }, 200);
      expect(body).include({ id: version.id, title: version.title });
    } else if (kind === 'fork') {
      const fork = stateOf(await aDraft(ada, { source_version_id: version.id }));
      const root = { id: fork.versions[0]?.id, title: 'v1', name: version.name };
      expect(fork).deep.include({ next: 2, versions: [root] });
      drafts.push(fork);
    } else if (kind === 'publish') {
      const agent = await anAgentOfDraft(ada, { id: draft.id, head_version_id: version.id });
      expect(agent).include({ agent_name: version.name, source_draft_id: draft.id });
      agents.push(agent);
    } else if (drafts.length > 1) {
      await ada.delete(`/agent-drafts/${draft.id}`, 204);
      drafts.splice(drafts.indexOf(draft), 1);
    }
  }

  async function expectAsExpected(draft: Expected): Promise<void> {
    const found = await readDraft(ada, draft.id);
    expect(stateOf(found)).deep.equal(draft);
    const ids = draft.versions.map(({ id }) => id);
    expect(found.versions.map(({ parent_version_id }) => parent_version_id)).deep.equal([null, ...ids.slice(0, -1)]);
    const name = draft.versions.at(-1)?.name.trim() || 'Untitled Draft';
    expect(found).include({ head_version_id: ids.at(-1), name });
  }

  it('keeps a linear chain of versions, reuses no number and loses no version', async () => {
    const agents: AgentDto[] = [];
    const property = fc.asyncProperty(fc.array(anyStep, { minLength: 20, maxLength: 40 }), async (steps) => {
      const started = { agent_name: 'Clerk', agent_prompt: 'Be brief.', anchor_words: { tax: 5 } };
      const drafts = [stateOf(await aDraft(ada, started))];
      for (const step of steps) {
        const changed = drafts[step.draft % drafts.length];
        await take(step, drafts, agents);
        if (changed !== undefined && drafts.includes(changed)) await expectAsExpected(changed);
      }
      // Drafts that the last change did not affect are compared too.
      for (const draft of drafts) await expectAsExpected(draft);
    });
    await fc.assert(property, { numRuns: propertyRuns(40), endOnFailure: true });
    for (const agent of agents) {
      const found = agentSchema.parse((await ada.get(`/agents/${agent.id}`, 200)).body);
      expect({ ...found, anchor_word_candidates: [] }).deep.equal(agent);
    }
  });
});
