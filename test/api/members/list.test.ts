import { expect } from 'chai';
import { memberListSchema } from '#src/modules/members/members.schema.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('GET /entity/members', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  const list = async (member: Member) => memberListSchema.parse((await member.get('/entity/members', 200)).body);

  it('200: lists all members, longest-standing first, to every member', async () => {
    const team = await aTeam(ada, [grace]);
    const members = await list(ada);
    expect(members).to.include({ org_id: ada.orgId, tier: 'free', member_limit: 10 });
    const [first, second] = members.items;
    expect(first).to.deep.include({ user_id: ada.userId, is_admin: true, added_by: null, teams: [] });
    expect(second).to.deep.include({
      user_id: grace.userId,
      email: grace.email,
      first_name: null,
      last_name: null,
      display_name: 'Grace',
      is_admin: false,
      disabled: false,
      added_by: ada.userId,
      teams: [{ team_id: team, is_team_admin: false }],
    });
    expect(await list(grace)).to.deep.equal(members);
  });

  it('200: includes disabled users and leaves out disabled teams', async () => {
    const own = await shared.signUp();
    const barbara = await aColleague(shared, own, 'Barbara');
    const team = await aTeam(own, [barbara]);
    await own.delete(`/entity/teams/${team}`, 204);
    await own.post(`/entity/users/${barbara.userId}/disable`, {}, 204);
    const { items } = await list(own);
    expect(items.map(({ user_id }) => user_id)).to.deep.equal([own.userId, barbara.userId]);
    expect(items[1]).to.deep.include({ disabled: true, teams: [] });
  });

  it('200: lists no users of another organization', async () => {
    const eve = await shared.signUp('Eve');
    expect((await list(eve)).items.map(({ user_id }) => user_id)).to.deep.equal([eve.userId]);
  });

  it('401: without a token', async () => {
    await shared.anonymous.get('/entity/members', 401);
  });
});
