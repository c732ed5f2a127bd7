import { expect } from 'chai';
import { teamListSchema } from '#src/modules/teams/teams.schema.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('GET /entity/teams', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const list = async (member: Member) => teamListSchema.parse((await member.get('/entity/teams', 200)).body);

  it('200: lists the enabled teams of the organization by name, to every member', async () => {
    expect(await list(ada)).to.deep.equal({ org_id: ada.orgId, tier: 'free', items: [] });
    for (const name of ['sales', 'Legal']) await ada.post('/entity/teams', { name }, 201);
    await ada.delete(`/entity/teams/${await aTeam(ada)}`, 204);
    const teams = await list(ada);
    expect(teams.items.map(({ name, org_id }) => [name, org_id])).to.deep.equal([
      ['Legal', ada.orgId],
      ['sales', ada.orgId],
    ]);
    expect(await list(await aColleague(shared, ada))).to.deep.equal(teams);
    expect((await list(await shared.signUp('Eve'))).items).to.deep.equal([]);
  });

  it('401: without a token', async () => {
    await shared.anonymous.get('/entity/teams', 401);
  });
});
