import { expect } from 'chai';
import { userSchema } from '#src/modules/members/members.schema.ts';
import { teamListSchema, teamMemberListSchema, teamMemberSchema, teamSchema } from '#src/modules/teams/teams.schema.ts';
import { aColleague, aDocumentIn, aTeam, freshEmail, rootOf, treesOf } from '#test/support/builders.ts';
import { type Member, sendJson, statusesOf } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { auditEntries } from '#test/support/stored-rows.ts';

const teams = '/entity/teams';
const membersOf = (team: string) => `${teams}/${team}/members`;
const memberOf = (team: string, { userId }: Pick<Member, 'userId'>) => `${membersOf(team)}/${userId}`;
const adminOf = (team: string, user: Pick<Member, 'userId'>) => `${memberOf(team, user)}/team-admin`;
const password = 'Correct-horse-1';
const newAccount = (fields: object = {}) => ({ email: freshEmail(), password, ...fields });

describe('teams:', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  let team: string;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
    team = await aTeam(ada);
  });

  const create = async (name: string) => teamSchema.parse((await ada.post(teams, { name }, 201)).body);
  const teamRoots = async (member: Member) =>
    (await treesOf(member)).filter(({ system_role }) => system_role === 'team_root');
  const aTeamAdmin = (of = team) => aColleague(shared, ada, 'Lead', { team_id: of, is_team_admin: true });
  const auditOf = async (target: string) =>
    (await auditEntries(shared, target)).map(({ action, detail }) => [action, detail]);

  describe('POST /entity/teams', () => {
    it('201: creates a team with a root folder that the org admin can use at once', async () => {
      const { id, ...sales } = await create(' Sales ');
      expect(sales).to.include({ org_id: ada.orgId, name: 'Sales' });
      const root = (await teamRoots(ada)).find(({ name }) => name === 'Sales');
      expect(root).include({ kind: 'system', visibility: 'team_level', entity_missing: false, can_write: true });
      expect(await auditOf(id)).deep.equal([['team.created', {}]]);
    });

    it('409: for the name of an enabled team in any letter case or Unicode form, also concurrently', async () => {
      const { id } = await create('Caf\u00e9 SALES');
      expect((await ada.post(teams, { name: ' cafe\u0301 sales' }, 409)).body).include({ code: 'name_taken' });
      await (await shared.signUp('Eve')).post(teams, { name: 'Caf\u00e9 SALES' }, 201);
      await ada.delete(`${teams}/${id}`, 204);
      await create('Caf\u00e9 SALES');
      const requests = Array.from({ length: 32 }, () => sendJson(ada, 'POST', teams, { name: 'Legal' }));
      expect(await statusesOf(requests)).deep.equal([201, ...Array(31).fill(409)]);
    });
  });

  it('GET /entity/teams lists the enabled teams of the organization by name, to every member', async () => {
    await ada.delete(`${teams}/${team}`, 204);
    const list = async (member: Member) => teamListSchema.parse((await member.get(teams, 200)).body);
    expect(await list(ada)).deep.equal({ org_id: ada.orgId, tier: 'free', items: [] });
    for (const name of ['sales', 'Legal']) await create(name);
    const listed = await list(ada);
    expect(listed.items.map(({ name }) => name)).deep.equal(['Legal', 'sales']);
    expect(await list(grace)).deep.equal(listed);
    expect((await list(await shared.signUp('Eve'))).items).deep.equal([]);
  });

  it('POST …/members creates a user whose account the admins of the team manage; 409 for a taken email', async () => {
    const lead = await aTeamAdmin();
    const { body } = await lead.post(membersOf(team), newAccount({ display_name: 'Alan' }), 201);
    const user = userSchema.parse(body);
    expect(user).include({ display_name: 'Alan', org_id: ada.orgId, is_org_admin: false });
    expect(user.teams).deep.equal([{ team_id: team, is_team_admin: false }]);
    await shared.anonymous.post('/auth/login', { username: user.email, password }, 200);
    await lead.post(`/entity/users/${user.user_id}/disable`, {}, 204);
    const detail = { is_org_admin: false, team_id: team };
    expect((await auditOf(user.user_id))[0]).deep.equal(['member.added', detail]);
    const admin = await ada.post(membersOf(team), newAccount({ is_team_admin: true }), 201);
    expect(userSchema.parse(admin.body).teams[0]).include({ is_team_admin: true });
    const { body: problem } = await ada.post(membersOf(team), newAccount({ email: ada.email }), 409);
    expect(problem).include({ code: 'email_taken' });
  });

  const put = async (body: object = {}) =>
    teamMemberSchema.parse((await ada.put(memberOf(team, grace), body, 200)).body);

  it('PUT …/members/{user_id} adds a member once, and can grant, but not revoke, the role of team admin', async () => {
    const added = await put();
    const fields = { user_id: grace.userId, display_name: 'Grace', disabled: false, added_by: ada.userId };
    expect(added).include({ ...fields, is_team_admin: false });
    expect(await put({ is_team_admin: true })).deep.equal({ ...added, is_team_admin: true });
    for (const body of [{}, { is_team_admin: false }]) expect(await put(body)).include({ is_team_admin: true });
    expect((await auditOf(grace.userId)).slice(1)).deep.equal([
      ['team_member.added', { team_id: team, is_team_admin: false }],
      ['team_member.role_changed', { team_id: team, is_team_admin: true }],
    ]);
    const requests = Array.from({ length: 16 }, () => sendJson(ada, 'PUT', memberOf(team, ada)));
    expect(await statusesOf(requests)).deep.equal(Array(16).fill(200));
  });

  it('GET /entity/teams/{team_id}/members lists enabled and disabled members to members and org admins', async () => {
    await ada.put(memberOf(team, grace), {}, 200);
    const lead = await aTeamAdmin();
    const away = await aColleague(shared, ada, 'Away', { team_id: team });
    await ada.post(`/entity/users/${away.userId}/disable`, {}, 204);
    const list = async (by: Member) => teamMemberListSchema.parse((await by.get(membersOf(team), 200)).body);
    const { items, ...rest } = await list(grace);
    expect(rest).include({ team_id: team, tier: 'free' });
    const { added_at, ...first } = items[0] ?? { added_at: '' };
    expect(added_at).match(/^\d{4}-/);
    const role = { is_team_admin: false, disabled: false, added_by: ada.userId };
    expect(first).deep.equal({ user_id: grace.userId, email: grace.email, display_name: 'Grace', ...role });
    expect(items.map((item) => [item.display_name, item.is_team_admin, item.disabled])).deep.equal([
      ['Grace', false, false],
      ['Lead', true, false],
      ['Away', false, true],
    ]);
    for (const member of [ada, lead]) expect((await list(member)).items).deep.equal(items);
  });

  it("PATCH …/team-admin grants and revokes the role of team admin, also the caller's own, from the next request on", async () => {
    const set = async (by: Member, user: Member, isTeamAdmin: boolean) => {
      const { body } = await by.patch(adminOf(team, user), { is_team_admin: isTeamAdmin }, 200);
      expect(teamMemberSchema.parse(body)).include({ user_id: user.userId, is_team_admin: isTeamAdmin });
    };
    await ada.put(memberOf(team, grace), {}, 200);
    const member = await aColleague(shared, ada, 'Member', { team_id: team });
    const rename = (status: number) => grace.patch(`/entity/users/${member.userId}`, { display_name: 'x' }, status);
    await rename(403);
    for (const _ of ['first', 'second']) await set(ada, grace, true);
    await rename(200);
    await set(grace, member, true);
    await set(grace, grace, false);
    await rename(403);
    await grace.patch(adminOf(team, grace), { is_team_admin: true }, 403);
    expect((await auditOf(grace.userId)).slice(2)).deep.equal([
      ['team_member.role_changed', { team_id: team, is_team_admin: true }],
      ['team_member.role_changed', { team_id: team, is_team_admin: false }],
    ]);
  });

  it('DELETE …/members/{user_id} keeps the user in the organization, and their content', async () => {
    const lead = await aTeamAdmin();
    await ada.put(memberOf(team, grace), {}, 200);
    const draft = { visibility: 'team_level', team_ids: [team] };
    const { id } = Object((await grace.post('/agent-drafts', draft, 201)).body);
    await grace.get(membersOf(team), 200);
    await lead.delete(memberOf(team, grace), 204);
    await grace.get(membersOf(team), 403);
    await grace.get(`/agent-drafts/${id}`, 200);
    expect((await auditOf(grace.userId)).at(-1)).deep.equal(['team_member.removed', { team_id: team }]);
    await lead.delete(memberOf(team, lead), 204);
    await lead.delete(memberOf(team, lead), 403);
  });

  it('DELETE /entity/teams/{team_id} hides shared content from members at once, but not from org admins', async () => {
    await ada.put(memberOf(team, grace), {}, 200);
    const root = await rootOf(grace, 'team_root');
    const id = await aDocumentIn(ada, root);
    await grace.get(`/documents/${id}`, 200);
    await ada.delete(`${teams}/${team}`, 204);
    await grace.get(`/documents/${id}`, 404);
    await grace.get(`/folders/${root}`, 404);
    expect(await teamRoots(grace)).deep.equal([]);
    await ada.get(`/documents/${id}`, 200);
    expect((await teamRoots(ada))[0]).include({ id: root, entity_missing: true });
    expect((await auditOf(team)).at(-1)).deep.equal(['team.disabled', {}]);
    await ada.post('/agent-drafts', { visibility: 'team_level', team_ids: [team] }, 404);
  });

  const requests = (id: string, user: Pick<Member, 'userId'>): [method: string, path: string, body?: object][] => [
    ['GET', membersOf(id)],
    ['POST', membersOf(id), newAccount()],
    ['PUT', memberOf(id, user), {}],
    ['PATCH', adminOf(id, user), { is_team_admin: true }],
    ['DELETE', memberOf(id, user)],
  ];
  const expectRefusals = async (by: Member, code: string, asked: ReturnType<typeof requests>) => {
    for (const [method, path, body] of asked) {
      expect(await (await sendJson(by, method, path, body)).json(), `${method} ${path}`).include({ code });
    }
  };

  it('routes answer 404 for a disabled team, and for a user outside the team or the organization', async () => {
    const disabled = await aTeam(ada, [grace]);
    await ada.delete(`${teams}/${disabled}`, 204);
    const ofMembers: ReturnType<typeof requests> = [
      ['DELETE', `${teams}/${disabled}`],
      ['POST', '/entity/members', newAccount({ team_id: disabled })],
      ['POST', '/entity/members', newAccount({ team_id: await aTeam(await shared.signUp('Eve')) })],
    ];
    await expectRefusals(ada, 'team_not_found', [...requests(disabled, grace), ...ofMembers]);
    await expectRefusals(ada, 'member_not_found', requests(team, grace).slice(3));
    await expectRefusals(ada, 'member_not_found', requests(team, await shared.signUp('Eve')).slice(2));
  });
});
