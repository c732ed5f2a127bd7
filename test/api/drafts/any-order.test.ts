import { expect } from 'chai';
import fc from 'fast-check';
import { type AgentDto, agentSchema } from '#src/modules/agents/agents.schema.ts';
import type { DraftDto } from '#src/modules/drafts/drafts.schema.ts';
import { aDraft, anAgentOfDraft, commitVersion, readDraft } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { propertyRuns } from '#test/support/property-runs.ts';
import { type Stack, stack } from '#test/support/stack.ts';

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

  it('keeps a linear chain up to its head, reuses no number and loses no version', async () => {
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
