import { expect } from 'chai';
import { membershipSchema } from '#src/modules/profile/profile.schema.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('GET /entity/me/membership', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const membership = async (member: Member) =>
    membershipSchema.parse((await member.get('/entity/me/membership', 200)).body);

  it('200: returns the organization and the role of the caller', async () => {
    expect(await membership(ada)).to.deep.equal({
      org_id: ada.orgId,
      org_name: "Ada's organization",
      tier: 'free',
      user_id: ada.userId,
      is_org_admin: true,
      teams: [],
    });
  });

  it('200: returns the enabled teams of the caller and their team admin roles', async () => {
    const grace = await aColleague(shared, ada);
    const [red, blue] = [await aTeam(ada, [grace]), await aTeam(ada, [grace])];
    await ada.patch(`/entity/teams/${blue}/members/${grace.userId}/team-admin`, { is_team_admin: true }, 200);
    const { teams, is_org_admin } = await membership(grace);
    expect(is_org_admin).to.equal(false);
    expect(teams.map((team) => [team.team_id, team.is_team_admin])).to.deep.equal([
      [red, false],
      [blue, true],
    ]);
    await ada.delete(`/entity/teams/${red}`, 204);
    expect((await membership(grace)).teams.map(({ team_id }) => team_id)).to.deep.equal([blue]);
  });

  it('401: without a token', async () => {
    await shared.anonymous.get('/entity/me/membership', 401);
  });
});
