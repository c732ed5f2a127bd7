import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { memberListSchema } from '#src/modules/members/members.schema.ts';
import { teamMemberListSchema } from '#src/modules/teams/teams.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague, aTeam, freshEmail } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { oneAfterTheOther } from '#test/support/one-after-the-other.ts';
import { expectAdmins } from '#test/support/remaining-admins.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { systemFolder } from '#test/support/stopped-jobs.ts';

const path = (userId: string) => `/entity/members/${userId}`;

describe('DELETE /entity/members/{user_id}', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  const membersOf = async (member: Member) =>
    memberListSchema.parse((await member.get('/entity/members', 200)).body).items.map(({ user_id }) => user_id);
  const signIn = (status: number) =>
    shared.anonymous.post('/auth/login', { username: grace.email, password: grace.password }, status);

  it('204: ends sessions, sign-in and all memberships of the account', async () => {
    const teamId = await aTeam(ada, [grace]);
    await ada.delete(path(grace.userId), 204);
    await grace.get('/folders', 401);
    await shared.anonymous.post('/auth/refresh_tokens', { refresh_token: grace.refreshToken }, 401);
    await signIn(401);
    expect(await membersOf(ada)).deep.equal([ada.userId]);
    const team = teamMemberListSchema.parse((await ada.get(`/entity/teams/${teamId}/members`, 200)).body);
    expect(team.items).deep.equal([]);
    const entries = await auditEntries(shared, grace.userId);
    expect(entries.at(-1)).deep.include({ actorId: ada.userId, action: 'member.removed' });
  });

  it('204: immediately frees the email and the place in the member limit', async () => {
    const { db } = shared.container;
    await ada.delete(path(grace.userId), 204);
    const { body } = await ada.post('/entity/members', { email: grace.email, password: grace.password }, 201);
    expect(body).not.property('user_id', grace.userId);
    await signIn(200);
    const living = await db('users').where({ email: grace.email }).whereNull('deletedAt');
    expect(living).length(1);
  });

  it('204: keeps shared content with the name of its author and makes personal content unreadable', async () => {
    const second = await aColleague(shared, ada, 'Second', { is_admin: true });
    const paste = async (target_folder_id: string) => {
      const text = { name: 'note', content: 'Some words.', source_format: 'text', target_folder_id };
      return fullDocumentSchema.parse((await second.post('/documents/paste', text, 201)).body).id;
    };
    const shown = await paste(await systemFolder(second, 'org_root'));
    const own = await paste(await systemFolder(second, 'personal_root'));
    await ada.delete(path(second.userId), 204);
    expect((await ada.get(`/documents/${shown}`, 200)).body).include({ created_by_name: 'Second' });
    await ada.get(`/documents/${own}`, 404);
    await grace.get(`/documents/${own}`, 404);
  });

  it('204: starts an erasure run that org admins can see but cannot stop', async () => {
    await ada.delete(path(grace.userId), 204);
    const id = `erase-${grace.userId}`;
    expect((await ada.get(`/jobs/${id}`, 200)).body).include({ kind: 'erase' });
    const other = await aColleague(shared, ada, 'Later');
    await other.get(`/jobs/${id}`, 404);
    await ada.patch(`/entity/members/${other.userId}/org-admin`, { is_org_admin: true }, 200);
    await other.get(`/jobs/${id}`, 200);
    expect((await other.post(`/jobs/${id}/cancel`, {}, 409)).body).include({ code: 'deletion_is_final' });
  });

  it('401 and 403: for a queued request of an admin who was removed or demoted meanwhile', async () => {
    const [gone, demoted] = [
      await aColleague(shared, ada, 'Gone', { is_admin: true }),
      await aColleague(shared, ada, 'Demoted', { is_admin: true }),
    ];
    const json = (method: string, body: object) => ({
      method,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const newAdmin = () => json('POST', { email: freshEmail(), password: ada.password, is_admin: true });
    const statuses = await oneAfterTheOther(shared, ada.orgId, [
      () => ada.raw(path(gone.userId), { method: 'DELETE' }),
      () => ada.raw(`${path(demoted.userId)}/org-admin`, json('PATCH', { is_org_admin: false })),
      () => gone.raw('/entity/members', newAdmin()),
      () => demoted.raw('/entity/members', newAdmin()),
      () => demoted.raw(path(grace.userId), { method: 'DELETE' }),
      () => demoted.raw('/entity/teams', json('POST', { name: 'Late' })),
    ]);
    expect(statuses).deep.equal([204, 200, 401, 403, 403, 403]);
  });

  it('401: without a token', async () => {
    await shared.anonymous.delete(path(grace.userId), 401);
  });

  it('403: for a member who is not an org admin, whatever the user id', async () => {
    const teamId = await aTeam(ada, [grace]);
    const admin = { is_team_admin: true };
    await ada.patch(`/entity/teams/${teamId}/members/${grace.userId}/team-admin`, admin, 200);
    const other = await aColleague(shared, ada, 'Other', { team_id: teamId });
    for (const id of [other.userId, ada.userId, grace.userId, crypto.randomUUID()]) await grace.delete(path(id), 403);
  });

  it('403: for the own account of the admin', async () => {
    await ada.patch(`${path(grace.userId)}/org-admin`, { is_org_admin: true }, 200);
    expect((await ada.delete(path(ada.userId), 403)).body).include({ code: 'forbidden' });
  });

  it('404: for an unknown user, a deleted one, and one of another organization', async () => {
    const eve = await shared.signUp('Eve');
    await ada.delete(path(grace.userId), 204);
    for (const id of [crypto.randomUUID(), eve.userId, grace.userId, '7']) {
      expect((await ada.delete(path(id), 404)).body).include({ code: 'member_not_found' });
    }
    await eve.get('/folders', 200);
  });

  it('409: for the last enabled admin', async () => {
    expect((await ada.delete(path(ada.userId), 409)).body).include({ code: 'last_org_admin' });
    await ada.patch(`${path(grace.userId)}/org-admin`, { is_org_admin: true }, 200);
    await ada.post(`/entity/users/${grace.userId}/disable`, {}, 204);
    expect((await ada.delete(path(ada.userId), 409)).body).include({ code: 'last_org_admin' });
    await ada.delete(path(grace.userId), 204);
  });

  it('409: for one of two admins who remove each other concurrently', async () => {
    await ada.patch(`${path(grace.userId)}/org-admin`, { is_org_admin: true }, 200);
    const remove = (by: Member, whom: Member) => by.raw(path(whom.userId), { method: 'DELETE' });
    const statuses = (await Promise.all([remove(ada, grace), remove(grace, ada)])).map(({ status }) => status);
    expect(statuses.filter((status) => status === 204)).length(1);
    await expectAdmins(shared, ada.orgId);
  });

  it('409: keeps an admin whatever 32 admins do to themselves and others concurrently', async () => {
    await ada.post('/entity/members', { email: `plain-${grace.email}`, password: grace.password }, 201);
    const others = await Promise.all(
      Array.from({ length: 7 }, () => aColleague(shared, ada, 'Admin', { is_admin: true })),
    );
    const all = [ada, ...others];
    const json = { 'content-type': 'application/json' };
    const acts = [
      (by: Member, whom: Member) => by.raw(path(whom.userId), { method: 'DELETE' }),
      (by: Member, whom: Member) => by.raw(`/entity/users/${whom.userId}/disable`, { method: 'POST' }),
      (by: Member, whom: Member) =>
        by.raw(`${path(whom.userId)}/org-admin`, { method: 'PATCH', headers: json, body: '{"is_org_admin":false}' }),
      (by: Member) =>
        by.raw('/auth/account', { method: 'DELETE', headers: json, body: JSON.stringify({ password: by.password }) }),
    ];
    const replies = await Promise.all(
      Array.from({ length: 32 }, (_, n) => {
        const [by = ada, whom = ada] = [all[n % all.length], all[(n * 3 + 1) % all.length]];
        return acts[n % acts.length]?.(by, whom);
      }),
    );
    for (const reply of replies) expect([200, 204, 401, 403, 404, 409]).include(reply?.status);
    await expectAdmins(shared, ada.orgId);
  });
});
