import { expect } from 'chai';
import { teamMemberListSchema } from '#src/modules/teams/teams.schema.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = (teamId: string) => `/entity/teams/${teamId}/members`;

describe('GET /entity/teams/{team_id}/members', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  let team: string;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
    team = await aTeam(ada, [grace]);
  });

  const list = async (member: Member) => teamMemberListSchema.parse((await member.get(path(team), 200)).body);

  it('200: for members of the team and org admins, including disabled users', async () => {
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    const away = await aColleague(shared, ada, 'Away', { team_id: team });
    await ada.post(`/entity/users/${away.userId}/disable`, {}, 204);
    const members = await list(grace);
    expect(members).to.include({ team_id: team, tier: 'free' });
    const { added_at, ...first } = members.items[0] ?? { added_at: '' };
    expect(added_at).match(/^\d{4}-/);
    expect(first).to.deep.equal({
      user_id: grace.userId,
      email: grace.email,
      display_name: 'Grace',
      is_team_admin: false,
      disabled: false,
      added_by: ada.userId,
    });
    expect(members.items.map((item) => [item.display_name, item.is_team_admin, item.disabled])).to.deep.equal([
      ['Grace', false, false],
      ['Lead', true, false],
      ['Away', false, true],
    ]);
    for (const member of [ada, lead]) expect(await list(member)).to.deep.equal(members);
  });

  it('401: without a token', async () => {
    await shared.anonymous.get(path(team), 401);
  });

  it('403: for other members of the organization', async () => {
    const other = await aTeam(ada);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: other, is_team_admin: true });
    expect((await lead.get(path(team), 403)).body).to.include({ code: 'forbidden' });
  });

  it('404: for a team that is unknown, disabled or of another organization', async () => {
    const disabled = await aTeam(ada, [ada]);
    await ada.delete(`/entity/teams/${disabled}`, 204);
    for (const id of [disabled, crypto.randomUUID(), '7']) {
      expect((await ada.get(path(id), 404)).body).to.include({ code: 'team_not_found' });
    }
    await (await shared.signUp('Eve')).get(path(team), 404);
  });
});
