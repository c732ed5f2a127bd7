import { expect } from 'chai';
import { agentListSchema, agentSchema } from '#src/modules/agents/agents.schema.ts';
import { draftDetailSchema } from '#src/modules/drafts/drafts.schema.ts';
import type { Member } from '#test/support/client.ts';
import { createTeam, signUpColleague } from '#test/support/colleague.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('agents', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const publish = async (scope: object, member = ada) => {
    const fields = { agent_name: 'Clerk', agent_prompt: 'Answer briefly.', anchor_words: { tax: 5 } };
    const draft = draftDetailSchema.parse((await member.post('/agent-drafts', fields, 201)).body);
    const sent = { version_id: draft.head_version_id, ...scope };
    return agentSchema.parse((await member.post(`/agent-drafts/${draft.id}/publish`, sent, 201)).body);
  };
  const list = async (member: Member) => agentListSchema.parse((await member.get('/agents', 200)).body).items;

  describe('GET /agents', () => {
    it('200: lists what the caller may use, newest first, as it was published', async () => {
      const personal = await publish({});
      const shareable = await publish({ visibility: 'org_level' });
      expect(await list(ada)).to.deep.equal([shareable, personal]);
      const grace = await signUpColleague(shared, ada);
      expect(await list(grace)).to.deep.equal([{ ...shareable, can_write: false }]);
      expect(await list(await shared.signUp('Eve'))).to.deep.equal([]);
    });

    it('401: without a token', async () => {
      await shared.anonymous.get('/agents', 401);
    });
  });

  describe('GET /agents/{agent_id}', () => {
    it('200: to the team that it is for, and 404 to the others', async () => {
      const [grace, barbara] = [await signUpColleague(shared, ada), await signUpColleague(shared, ada, 'Barbara')];
      const team = await createTeam(ada, [grace]);
      const agent = await publish({ visibility: 'team_level', team_ids: [team] });
      expect((await grace.get(`/agents/${agent.id}`, 200)).body).to.deep.equal({ ...agent, can_write: false });
      expect((await barbara.get(`/agents/${agent.id}`, 404)).body).to.include({ code: 'agent_not_found' });
    });

    it('200: can be written by an org admin when it is shared', async () => {
      const grace = await signUpColleague(shared, ada);
      const { id } = await publish({ visibility: 'org_level' }, grace);
      expect((await ada.get(`/agents/${id}`, 200)).body).to.include({ can_write: true, created_by: grace.userId });
    });

    it('401: without a token', async () => {
      await shared.anonymous.get(`/agents/${crypto.randomUUID()}`, 401);
    });

    it('404: once it is deleted, for another organization, and for an id that is none', async () => {
      const { id } = await publish({ visibility: 'org_level' });
      await (await shared.signUp('Eve')).get(`/agents/${id}`, 404);
      await shared.container.db('agents').where({ id }).update({ deletedAt: new Date() });
      await ada.get(`/agents/${id}`, 404);
      await ada.get('/agents/7', 404);
    });
  });
});
