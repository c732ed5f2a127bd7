import { expect } from 'chai';
import { type AgentDto, agentListSchema } from '#src/modules/agents/agents.schema.ts';
import { aDraft, aDraftWithVersions, aSettledAgentOfDraft, readDraft } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { post } from '#test/support/exact-limit.ts';
import { expectInvariants } from '#test/support/fault-case.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const TIMES = 32;

describe('F12: many who commit and publish at once, before two processes of the API', () => {
  let stacks: [Stack, Stack];
  let ada: Member;
  /** The same caller before the one and the other process. */
  let turns: Member[];

  before(async () => {
    const first = await startStack();
    const { database, temporal } = first.config;
    const shared = { DATABASE_URL: database.url, TEMPORAL_NAMESPACE: temporal.namespace };
    const second = await startStack(shared, { workers: false });
    stacks = [first, second];
    ada = await first.signUp();
    turns = stacks.map(({ baseUrl }) => ({ ...ada, ...ada.at(baseUrl) }));
  });
  after(async () => {
    for (const stack of stacks.toReversed()) await stack.close();
  });
  afterEach(() => expectInvariants(stacks[0]));

  const atOnce = (ask: (member: Member, turn: number) => Promise<Response>) =>
    Promise.all(Array.from({ length: TIMES }, (_, turn) => ask(turns[turn % 2] ?? ada, turn)));
  const statusesOf = (answers: Response[]) => answers.map(({ status }) => status).sort();
  const oneOfAll = [201, ...Array(TIMES - 1).fill(409)];

  it('under one parent: it gets one child, and one number is given', async () => {
    const { id, head_version_id } = await aDraft(ada);
    const sent = { parent_version_id: head_version_id };
    const answers = await atOnce((member) => post(member, `/agent-drafts/${id}/versions`, sent));
    expect(statusesOf(answers)).deep.equal(oneOfAll);
    const { versions, next_version_number } = await readDraft(ada, id);
    expect(versions.map(({ title }) => title)).deep.equal(['v1', 'v2']);
    expect(next_version_number).equal(3);
  });

  it('by force: each is made and replaces the one before, and the last is left', async () => {
    const { id, head_version_id } = await aDraft(ada);
    const sent = { parent_version_id: head_version_id, force: true };
    const answers = await atOnce((member) => post(member, `/agent-drafts/${id}/versions`, sent));
    expect(statusesOf(answers)).deep.equal(Array(TIMES).fill(201));
    const { versions, next_version_number } = await readDraft(ada, id);
    expect(versions.map(({ title }) => title)).deep.equal(['v1', `v${TIMES + 1}`]);
    expect(next_version_number).equal(TIMES + 2);
  });

  it('while every version is deleted: nothing breaks, and one at least is left', async () => {
    const { id, versions } = await aDraftWithVersions(ada, TIMES / 2);
    const answers = await atOnce((member, turn) => {
      const versionId = versions[Math.floor(turn / 2)]?.id;
      const path = `/agent-drafts/${id}/versions`;
      if (turn % 4 === 0) return post(member, path, { parent_version_id: versionId, force: turn % 8 === 0 });
      return member.raw(`${path}/${versionId}`, { method: 'DELETE' });
    });
    for (const { status } of answers) expect(status).oneOf([201, 204, 404, 409]);
    expect((await readDraft(ada, id)).versions).not.empty;
  });

  it('one place below the limit of agents: one is published', async () => {
    const draft = await aDraft(ada);
    const agents: AgentDto[] = [];
    for (let used = 1; used < stacks[0].config.tierLimits.free.agents; used += 1) {
      agents.unshift(await aSettledAgentOfDraft(ada, draft));
    }
    const sent = { version_id: draft.head_version_id };
    const answers = await atOnce((member) => post(member, `/agent-drafts/${draft.id}/publish`, sent));
    expect(statusesOf(answers)).deep.equal(oneOfAll);
    const { items } = agentListSchema.parse((await ada.get('/agents', 200)).body);
    expect(items.slice(1)).deep.equal(agents);
  });
});
