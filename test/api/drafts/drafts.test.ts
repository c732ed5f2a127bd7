import { expect } from 'chai';
import fc from 'fast-check';
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

/** A random change of a version, which is chosen by its position; most often the head. */
const anyChange = fc.record({
  kind: fc.constantFrom('commit', 'commit', 'force', 'delete', 'rename'),
  place: fc.oneof(fc.nat(7), fc.constant(-1)),
  agent_name: fc.constantFrom('', 'Clerk', 'Notary', ' '),
});
type Change = typeof anyChange extends fc.Arbitrary<infer Value> ? Value : never;

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
    const [version, ...others] = draft.versions;
    expect(others).deep.equal([]);
    expect(version).include({ id: draft.head_version_id, parent_version_id: null, title: 'v1', agent_name: '' });
    expect(version).include({ chat_model: null, temperature: 0.7, max_tokens: 4096, eval_scores: null });
    expect(version).deep.include({ anchor_words: {}, anchor_word_count: 0 });
  });

  it('store every field; a fork copies the fields of its source version or agent, not sent ones, and is personal', async () => {
    const source = await aDraft(ada, { ...fields, visibility: 'org_level' });
    const ignored = { agent_name: 'Ignored', color: 'red', temperature: 9, enabled_tools: ['none.such'], tags: 1 };
    const fork = await aDraft(grace, { source_version_id: source.head_version_id, ...ignored });
    expect(fork).include({ created_by: grace.userId, visibility: 'personal', name: 'Clerk' });
    for (const { versions } of [source, fork]) {
      expect(versions[0]).deep.include({ ...fields, anchor_word_count: 2, title: 'v1', parent_version_id: null });
    }
    // Agents have no golden cases.
    const agent = await anAgentOfDraft(ada, source);
    const ofAgent = await aDraft(ada, { source_agent_id: agent.id });
    expect(ofAgent.versions[0]).deep.include({ ...fields, golden_cases: [] });
  });

  it('reject a source, team or model that the owner cannot use, and a visibility that does not fit the sent team_ids', async () => {
    const [{ head_version_id: foreign }, { id, head_version_id }] = [await aDraft(ada, {}), await aDraft(grace)];
    const unknown = crypto.randomUUID();
    const forOthers = { visibility: 'team_level', team_ids: [await aTeam(ada)] };
    const create = (sent: object, status: number) => grace.post('/agent-drafts', sent, status);
    const change = (sent: object, status: number) => grace.patch(`/agent-drafts/${id}/scope`, sent, status);
    const commit = (sent: object, status: number) =>
      grace.post(`/agent-drafts/${id}/versions`, { parent_version_id: head_version_id, ...sent }, status);
    const publish = (sent: object, status: number) =>
      grace.post(`/agent-drafts/${id}/publish`, { version_id: head_version_id, ...sent }, status);
    for (const [ask, sent, status, expected] of [
      [create, { source_agent_id: unknown }, 404, { code: 'agent_not_found' }],
      [create, { source_version_id: foreign }, 404, { code: 'version_not_found' }],
      [create, forOthers, 404, { code: 'team_not_found' }],
      [change, forOthers, 404, { code: 'team_not_found' }],
      [publish, forOthers, 404, { code: 'team_not_found' }],
      [create, { source_agent_id: unknown, source_version_id: unknown }, 422, { code: 'validation_failed' }],
      [create, { visibility: 'team_level' }, 422, { code: 'validation_failed' }],
      [create, { chat_model: 'unheard-of' }, 422, { code: 'unknown_model' }],
      [commit, { chat_model: 'unheard-of' }, 422, { code: 'unknown_model' }],
      [change, {}, 422, { 'errors[0].path': 'visibility' }],
      [change, { visibility: 'team_level' }, 422, { 'errors[0].path': 'team_ids' }],
      [change, { ...forOthers, visibility: 'org_level' }, 422, { 'errors[0].path': 'team_ids' }],
      [publish, { visibility: 'team_level' }, 422, { 'errors[0].path': 'team_ids' }],
      [publish, { ...forOthers, visibility: 'personal' }, 422, { 'errors[0].path': 'team_ids' }],
    ] as const) {
      expect((await ask(sent, status)).body).nested.include(expected);
    }
    expect(await readDraft(grace, id)).include({ visibility: 'personal', head_version_id });
  });

  itHoldsTheLimit('draft_limit_reached', async (member) => () => post(member, '/agent-drafts', {}));

  itHoldsTheLimit('agent_limit_reached', async (member) => {
    const { id, head_version_id } = await aDraft(member);
    return () => post(member, `/agent-drafts/${id}/publish`, { version_id: head_version_id });
  });

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

  for (const path of ['/agent-drafts', '/agents']) {
    it(`and published agents can be hidden by a user from their own list, and be shown again (${path})`, async () => {
      const owner = await shared.signUp();
      const reader = await aColleague(shared, owner);
      const make = async () => {
        const draft = await aDraft(owner, { ...clerk, visibility: 'org_level' });
        return path === '/agents' ? (await anAgentOfDraft(owner, draft)).id : draft.id;
      };
      const [one, two] = [await make(), await make()];
      const listed = async () => Object((await owner.get(path, 200)).body).items.map((item: { id: string }) => item.id);
      const hidden = async (member: Member) => Object((await member.get(`${path}/hidden`, 200)).body).ids;
      await owner.delete(`${path}/${one}/hide`, 204);
      for (const id of [one, one, two]) await owner.post(`${path}/${id}/hide`, undefined, 204);
      await reader.post(`${path}/${one}/hide`, undefined, 204);
      expect(await listed()).deep.equal([]);
      expect(await hidden(owner)).have.members([one, two]);
      await owner.get(`${path}/${one}`, 200);
      await owner.delete(`${path}/${one}/hide`, 204);
      await owner.delete(`${path}/${two}`, 204);
      expect([await listed(), await hidden(owner), await hidden(reader)]).deep.equal([[one], [], [one]]);
      await owner.delete(`${path}/${one}`, 204);
      expect(await hidden(reader)).deep.equal([]);
    });
  }

  it('are deleted with all versions, while agents and forks made of them stay', async () => {
    const draft = await aDraftWithVersions(ada, 3, { ...fields, visibility: 'org_level' });
    const agent = await aSettledAgentOfDraft(ada, draft);
    const fork = await aDraft(ada, { source_version_id: draft.head_version_id });
    await ada.delete(`/agent-drafts/${draft.id}`, 204);
    await ada.get(`/agent-drafts/${draft.id}`, 404);
    await ada.delete(`/agent-drafts/${draft.id}`, 404);
    await ada.post('/agent-drafts', { source_version_id: draft.versions[0]?.id }, 404);
    expect((await ada.get(`/agents/${agent.id}`, 200)).body).deep.equal({ ...agent, source_draft_id: draft.id });
    expect(await readDraft(ada, fork.id)).deep.equal(fork);
  });

  describe('have versions, which', () => {
    const versionsOf = (draftId: string) => `/agent-drafts/${draftId}/versions`;

    it('are not found (404) by requests with the id of another draft or of an unknown draft', async () => {
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
      const noLists = { tags: [], anchor_words: {}, enabled_tools: [], golden_cases: [] };
      const empty = { agent_prompt: '', color: null, chat_model: null, temperature: 0, ...noLists };
      const third = await commitVersion(ada, id, {
        parent_version_id: second.id,
        ...empty,
        icon_name: '',
        title: '  ',
      });
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

    it("become a new agent each time they are published, with defaults for unset fields and the draft's visibility", async () => {
      const draft = await aDraft(ada);
      await commitVersion(ada, draft.id, {
        parent_version_id: draft.head_version_id,
        agent_name: 'Notary',
        tags: ['new'],
      });
      const agent = await anAgentOfDraft(ada, draft);
      const { chatModel: chat_model } = shared.config.models;
      expect(agent).include({ agent_name: 'Clerk', agent_prompt: 'Answer briefly.', source_draft_id: draft.id });
      expect(agent).deep.include({ chat_model, tags: [], visibility: 'personal' });
      expect(agent).include({ user_off_topic_streak_threshold: 3, user_on_topic_streak_threshold: 2 });
      expect(agent).deep.include({ ready: true, has_chats: false, can_write: true, anchor_word_candidates: [] });
      expect((await anAgentOfDraft(ada, draft)).id).not.equal(agent.id);

      const scope = { visibility: 'team_level', team_ids: [await aTeam(ada)] };
      const ofTeam = await aDraft(ada, { ...clerk, ...scope });
      expect(await anAgentOfDraft(ada, ofTeam)).deep.include(scope);
      const forAll = await anAgentOfDraft(ada, ofTeam, { visibility: 'org_level' });
      expect(forAll).deep.include({ visibility: 'org_level', team_ids: [] });
    });

    it('are not published (409) while prompt and anchor words are missing, which the response names', async () => {
      const { id, head_version_id: version_id } = await aDraft(ada, { agent_name: 'Clerk' });
      const { body } = await ada.post(`/agent-drafts/${id}/publish`, { version_id }, 409);
      const missing = { 'errors[0].path': 'agent_prompt', 'errors[1].path': 'anchor_words' };
      expect(body).nested.include({ code: 'not_ready', ...missing });
    });

    it('keep a linear chain, reuse no number and lose no version under random sequences of changes', async () => {
      const holds = async (changes: Change[]) => {
        const member = await shared.signUp();
        const { id: draftId, head_version_id: id } = await aDraft(member);
        const fork = await aDraft(member, { source_version_id: id });
        const path = `/agent-drafts/${draftId}/versions`;
        const versions = [{ id, title: 'v1', agent_name: 'Clerk' }];
        let next = 2;
        for (const { kind, place, agent_name } of changes) {
          const { length } = versions;
          const index = place < 0 ? length - 1 : place % length;
          const version = versions[index] ?? expect.fail('The draft has no versions.');
          if (kind === 'delete') {
            await member.delete(`${path}/${version.id}`, length === 1 ? 409 : 204);
            if (length > 1) versions.splice(index, 1);
          } else if (kind === 'rename') {
            version.title = `Renamed ${next}`;
            const { body } = await member.patch(`${path}/${version.id}`, { title: ` ${version.title} ` }, 200);
            expect(body).include(version);
          } else if (kind === 'commit' && index < length - 1) {
            await member.post(path, { parent_version_id: version.id }, 409);
          } else {
            const sent = { parent_version_id: version.id, agent_name, force: kind === 'force' };
            const { id } = await commitVersion(member, draftId, sent);
            versions.splice(index + 1, Number.POSITIVE_INFINITY, { id, title: `v${next}`, agent_name });
            next += 1;
          }
          const draft = await readDraft(member, draftId);
          const found = draft.versions.map(({ id, title, agent_name, parent_version_id }) => {
            return { id, title, agent_name, parent_version_id };
          });
          const parents = [null, ...versions.map(({ id }) => id)];
          expect(found).deep.equal(versions.map((each, at) => ({ ...each, parent_version_id: parents[at] })));
          const name = versions.at(-1)?.agent_name.trim() || 'Untitled Draft';
          expect(draft).include({ name, head_version_id: versions.at(-1)?.id, next_version_number: next });
        }
        expect(await readDraft(member, fork.id)).deep.equal(fork);
      };
      const sequences = fc.array(anyChange, { minLength: 20, maxLength: 40 });
      await fc.assert(fc.asyncProperty(sequences, holds), { numRuns: propertyRuns(40), endOnFailure: true });
    });
  });
});
