import { expect } from 'chai';
import { memberListSchema, userSchema } from '#src/modules/members/members.schema.ts';
import { aColleague, aDocumentIn, aTeam, freshEmail, rootOf, treesOf } from '#test/support/builders.ts';
import { type Member, sendJson, statusesOf } from '#test/support/client.ts';
import { itHoldsTheLimit, oneAfterTheOther, post } from '#test/support/concurrent-requests.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { auditEntries } from '#test/support/stored-rows.ts';

const members = '/entity/members';
const memberPath = ({ userId }: Member) => `${members}/${userId}`;
const userPath = (userId: string, action = '') => `/entity/users/${userId}${action}`;
const password = 'Correct-horse-1';
const newAccount = (fields: object = {}) => ({ email: freshEmail(), password, ...fields });

describe('members of an organization:', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  const list = async (member: Member) => memberListSchema.parse((await member.get(members, 200)).body);
  const login = async (username: string, status: number, secret = password) =>
    Object((await shared.anonymous.post('/auth/login', { username, password: secret }, status)).body);
  const signIn = async (email: string) => shared.anonymous.withToken((await login(email, 200)).access_token);
  const refresh = ({ refreshToken }: Member, status: number) =>
    shared.anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, status);
  const aTeamAdmin = (team: string) => aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
  const auditOf = async (target: string) =>
    (await auditEntries(shared, target)).map(({ actorId, action, detail }) => [actorId, action, detail]);
  const set = async (by: Member, of: Member, is_org_admin: boolean) =>
    userSchema.parse((await by.patch(`${memberPath(of)}/org-admin`, { is_org_admin }, 200)).body);
  const aColleagueAdmin = (name = 'Admin') => aColleague(shared, ada, name, { is_admin: true });

  describe('POST /entity/members', () => {
    const create = async (fields: object = {}) =>
      userSchema.parse((await ada.post(members, newAccount(fields), 201)).body);

    it('201: creates a user who can sign in and has a personal folder', async () => {
      const email = freshEmail('alan');
      const { user_id, ...user } = await create({ email: ` ${email.toUpperCase()} `, display_name: ' Alan ' });
      const names = { email, first_name: null, last_name: null, display_name: 'Alan' };
      expect(user).deep.include({ ...names, org_id: ada.orgId, is_org_admin: false, disabled: false, teams: [] });
      const folders = await treesOf((await signIn(email)) as Member);
      expect(folders.map(({ system_role }) => system_role)).members(['org_root', 'personal_root']);
      const detail = { is_org_admin: false, team_id: null };
      expect(await auditOf(user_id)).deep.equal([[ada.userId, 'member.added', detail]]);
      const nameless = await create({ email: `x${freshEmail('alan')}`, display_name: '\u200b ' });
      expect(nameless.display_name).match(/^xalan-/);
    });

    it('201: creates an org admin, or a member or an admin of a team', async () => {
      const admin = await create({ is_admin: true });
      expect(admin.is_org_admin).equal(true);
      await (await signIn(admin.email)).patch('/entity/org', { name: 'Ours' }, 200);
      const team = await aTeam(ada);
      expect((await create({ team_id: team })).teams).deep.equal([{ team_id: team, is_team_admin: false }]);
      const lead = await create({ team_id: team.toUpperCase(), is_team_admin: true });
      expect(lead.teams).deep.equal([{ team_id: team, is_team_admin: true }]);
      await (await signIn(lead.email)).get(`/entity/teams/${team}/members`, 200);
    });

    it('409 or 422: for an email that has an account in any organization, and for a team admin without a team', async () => {
      const eve = await shared.signUp('Eve');
      for (const email of [ada.email, ` ${eve.email.toUpperCase()}`]) {
        expect((await ada.post(members, newAccount({ email }), 409)).body).include({ code: 'email_taken' });
      }
      const { body } = await ada.post(members, newAccount({ is_team_admin: true }), 422);
      expect(body).nested.include({ 'errors[0].path': 'is_team_admin', 'errors[0].code': 'team_required' });
    });

    itHoldsTheLimit(
      'member_limit_reached',
      async (admin) => {
        const disabled = userSchema.parse((await admin.post(members, newAccount(), 201)).body);
        await admin.post(userPath(disabled.user_id, '/disable'), {}, 204);
        return () => post(admin, members, newAccount());
      },
      2,
    );
  });

  it('GET /entity/members lists all members, longest-standing first, with their teams, to every member', async () => {
    const [team, disabled] = [await aTeam(ada, [grace]), await aTeam(ada)];
    const away = await aColleague(shared, ada, 'Away', { team_id: disabled });
    await ada.delete(`/entity/teams/${disabled}`, 204);
    await ada.post(userPath(away.userId, '/disable'), {}, 204);
    const listed = await list(ada);
    expect(listed).include({ org_id: ada.orgId, tier: 'free', member_limit: 10 });
    expect(listed.items).length(3);
    const [first, second, third] = listed.items;
    expect(first).deep.include({ user_id: ada.userId, is_admin: true, added_by: null, teams: [] });
    const user = {
      user_id: grace.userId,
      email: grace.email,
      first_name: null,
      last_name: null,
      display_name: 'Grace',
    };
    const role = { is_admin: false, disabled: false, added_by: ada.userId };
    expect(second).deep.include({ ...user, ...role, teams: [{ team_id: team, is_team_admin: false }] });
    expect(third).deep.include({ user_id: away.userId, disabled: true, teams: [] });
    expect(await list(grace)).deep.equal(listed);
  });

  describe('PATCH /entity/users/{user_id}', () => {
    const patch = async (by: Member, { userId }: Member, body: object) =>
      userSchema.parse((await by.patch(userPath(userId), body, 200)).body);

    it('200: changes the display name, or the email for sign-in; 409 for an email with an account', async () => {
      const renamed = await patch(ada, grace, { display_name: ' Amazing Grace ' });
      expect(renamed).deep.include({ user_id: grace.userId, email: grace.email, display_name: 'Amazing Grace' });
      const email = freshEmail('grace');
      for (const sent of [` ${email.toUpperCase()}`, email]) {
        expect(await patch(ada, grace, { email: sent })).include({ email, display_name: 'Amazing Grace' });
      }
      await login(email, 200);
      await login(grace.email, 401);
      expect((await auditOf(grace.userId)).slice(1)).deep.equal([
        [ada.userId, 'user.changed', { email_changed: false, display_name_changed: true }],
        [ada.userId, 'user.changed', { email_changed: true, display_name_changed: false }],
      ]);
      const taken = await ada.patch(userPath(grace.userId), { email: (await shared.signUp('Eve')).email }, 409);
      expect(taken.body).include({ code: 'email_taken' });
    });

    it('403: for a team admin, if the member was put into the team by a team admin and not by an org admin', async () => {
      const team = await aTeam(ada);
      const [lead, helper] = [await aTeamAdmin(team), await aTeamAdmin(team)];
      const membership = `/entity/teams/${team}/members/${grace.userId}`;
      await lead.put(membership, {}, 200);
      await lead.patch(userPath(grace.userId), { email: freshEmail() }, 403);
      // A second team admin may not entrust the first one either.
      await lead.delete(membership, 204);
      await helper.put(membership, {}, 200);
      for (const action of ['/disable', '/enable']) await lead.post(userPath(grace.userId, action), {}, 403);
      await lead.post(userPath(grace.userId, '/reset-password'), { new_password: password }, 403);
      await lead.patch(userPath(grace.userId), { email: freshEmail() }, 403);
      await ada.put(membership, {}, 200);
      await patch(lead, grace, { display_name: 'Ours' });
      // A member of another enabled team is not the team's alone.
      const other = await aTeam(ada, [grace]);
      await lead.patch(userPath(grace.userId), { display_name: 'Mine' }, 403);
      await ada.delete(`/entity/teams/${other}`, 204);
      await patch(lead, grace, { display_name: 'Ours' });
    });
  });

  it('POST …/disable and …/reset-password end all sessions; …/enable allows new sign-ins, by the new password only', async () => {
    const team = await aTeam(ada, [grace]);
    const lead = await aTeamAdmin(team);
    for (const _ of ['first', 'second']) await lead.post(userPath(grace.userId, '/disable'), {}, 204);
    expect((await grace.get('/folders', 401)).body).include({ code: 'invalid_token' });
    await refresh(grace, 403);
    expect(await login(grace.email, 403)).include({ code: 'account_disabled' });
    await login(grace.email, 401, 'Wrong-horse-1');
    const disabled = (await list(ada)).items.find(({ user_id }) => user_id === grace.userId);
    expect(disabled).deep.include({ disabled: true, teams: [{ team_id: team, is_team_admin: false }] });
    const changed = 'Battery-staple-2';
    await lead.post(userPath(grace.userId, '/reset-password'), { new_password: changed }, 204);

    for (const _ of ['first', 'second']) await lead.post(userPath(grace.userId, '/enable'), {}, 204);
    await grace.get('/folders', 401);
    await refresh(grace, 401);
    await login(grace.email, 401);
    const again = await login(grace.email, 200, changed);
    const [, , ...acts] = (await auditOf(grace.userId)).map(([, action, detail]) => [action, Object(detail).reason]);
    expect(acts).deep.equal([
      ['user.disabled', undefined],
      ['session.refused', 'account_disabled'],
      ['session.refused', 'invalid_credentials'],
      ['user.password_reset', undefined],
      ['user.enabled', undefined],
      ['session.refused', 'invalid_credentials'],
    ]);
    await lead.post(userPath(grace.userId, '/reset-password'), { new_password: password }, 204);
    await shared.anonymous.withToken(again.access_token).get('/folders', 401);
    await refresh({ ...grace, refreshToken: again.refresh_token }, 401);
  });

  it('an admin cannot disable or remove their own account, nor reset its password (403)', async () => {
    await ada.patch(`${memberPath(grace)}/org-admin`, { is_org_admin: true }, 200);
    await grace.post(userPath(grace.userId, '/disable'), {}, 403);
    await grace.post(userPath(grace.userId, '/reset-password'), { new_password: password }, 403);
    await grace.delete(memberPath(grace), 403);
    await grace.get('/folders', 200);
  });

  it('PATCH …/org-admin grants and revokes the role of org admin, from the next request on', async () => {
    await grace.patch('/entity/org', { name: 'x' }, 403);
    for (const _ of ['first', 'second']) expect(await set(ada, grace, true)).include({ is_org_admin: true });
    await grace.patch('/entity/org', { name: 'Ours' }, 200);
    expect(await set(grace, grace, false)).include({ user_id: grace.userId, is_org_admin: false });
    await grace.patch('/entity/org', { name: 'Mine' }, 403);
    expect((await auditOf(grace.userId)).slice(1)).deep.equal([
      [ada.userId, 'member.role_changed', { is_org_admin: true }],
      [grace.userId, 'member.role_changed', { is_org_admin: false }],
    ]);
  });

  describe('DELETE /entity/members/{user_id}', () => {
    it('204: removes the member from all lists, keeps shared content with its author, and hides personal content', async () => {
      const second = await aColleagueAdmin('Second');
      const [shown, own] = [
        await aDocumentIn(second, await rootOf(second, 'org_root')),
        await aDocumentIn(second, await rootOf(second, 'personal_root')),
      ];
      const team = await aTeam(ada, [second]);
      await ada.delete(memberPath(second), 204);
      expect((await list(ada)).items.map(({ user_id }) => user_id)).deep.equal([ada.userId, grace.userId]);
      expect((await ada.get(`/entity/teams/${team}/members`, 200)).body).deep.include({ items: [] });
      expect((await ada.get(`/documents/${shown}`, 200)).body).include({ created_by_name: 'Second' });
      for (const member of [ada, grace]) await member.get(`/documents/${own}`, 404);
      // Org admins can see the run that erases it, but cannot stop it.
      const job = `/jobs/erase-${second.userId}`;
      await grace.get(job, 404);
      await set(ada, grace, true);
      expect((await grace.get(job, 200)).body).include({ kind: 'erase' });
      expect((await grace.post(`${job}/cancel`, {}, 409)).body).include({ code: 'deletion_is_final' });
    });

    it('401 and 403: for an admin who was removed or demoted while the request waited', async () => {
      const [gone, demoted] = [await aColleagueAdmin('Gone'), await aColleagueAdmin('Demoted')];
      const newAdmin = () => newAccount({ is_admin: true });
      const statuses = await oneAfterTheOther(shared, ada.orgId, [
        () => sendJson(ada, 'DELETE', memberPath(gone)),
        () => sendJson(ada, 'PATCH', `${memberPath(demoted)}/org-admin`, { is_org_admin: false }),
        () => sendJson(gone, 'POST', members, newAdmin()),
        () => sendJson(demoted, 'POST', members, newAdmin()),
        () => sendJson(demoted, 'DELETE', memberPath(grace)),
        () => sendJson(demoted, 'POST', '/entity/teams', { name: 'Late' }),
      ]);
      expect(statuses).deep.equal([204, 200, 401, 403, 403, 403]);
    });
  });

  it('a request whose sender is disabled (401) or demoted (403) while its body arrives is refused', async () => {
    /** Sends the head of a request without its body. @returns a function that sends the body, for the status */
    const begin = ({ raw }: Member, path: string, body: object): (() => Promise<number>) => {
      const sent = new TransformStream<Uint8Array, Uint8Array>();
      const headers = { 'content-type': 'application/json' };
      const init: RequestInit = { method: 'PATCH', headers, body: sent.readable, duplex: 'half' };
      const answer = raw(path, init);
      return async () => {
        const writer = sent.writable.getWriter();
        await writer.write(new TextEncoder().encode(JSON.stringify(body)));
        await writer.close();
        return (await answer).status;
      };
    };
    const demoted = await aColleagueAdmin();
    const promote = begin(demoted, `${memberPath(demoted)}/org-admin`, { is_org_admin: true });
    await set(ada, demoted, false);
    expect(await promote()).equal(403);
    const rename = begin(grace, '/entity/me/profile', { first_name: 'Mallory' });
    await ada.post(userPath(grace.userId, '/disable'), {}, 204);
    expect(await rename()).equal(401);
  });

  /** Every way in which an organization can lose an admin. */
  const acts: Record<string, (by: Member, whom: Member) => Promise<Response>> = {
    remove: (by, whom) => sendJson(by, 'DELETE', memberPath(whom)),
    disable: (by, whom) => sendJson(by, 'POST', userPath(whom.userId, '/disable')),
    demote: (by, whom) => sendJson(by, 'PATCH', `${memberPath(whom)}/org-admin`, { is_org_admin: false }),
    leave: (by) => sendJson(by, 'DELETE', '/auth/account', { password: by.password }),
  };

  it('the last enabled admin cannot be disabled, demoted or removed, and cannot leave (409)', async () => {
    const expectRefusals = async () => {
      for (const [name, act] of Object.entries(acts)) {
        expect(await (await act(ada, ada)).json(), name).include({ code: 'last_org_admin', status: 409 });
      }
    };
    await expectRefusals();
    await set(ada, grace, true);
    await ada.post(userPath(grace.userId, '/disable'), {}, 204);
    await expectRefusals();
    await ada.post(userPath(grace.userId, '/enable'), {}, 204);
    await set(ada, ada, false);
  });

  it('at least one admin remains, whatever 32 admins do to themselves and each other concurrently', async () => {
    const all = [ada, ...(await Promise.all(Array.from({ length: 7 }, () => aColleagueAdmin())))];
    const each = Object.values(acts);
    const requests = Array.from({ length: 32 }, async (_, n) => {
      const [by = ada, whom = ada] = [all[n % all.length], all[(n * 3 + 1) % all.length]];
      return each[n % each.length]?.(by, whom) ?? Response.error();
    });
    for (const status of await statusesOf(requests)) expect([200, 204, 401, 403, 404, 409]).include(status);
    const memberships = await Promise.all(all.map(async ({ raw }) => (await raw('/entity/me/membership')).json()));
    expect(memberships.filter((membership) => Object(membership).is_org_admin)).not.deep.equal([]);
  });
});
