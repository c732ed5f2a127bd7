import { expect } from 'chai';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = (userId: string) => `/entity/users/${userId}/enable`;

describe('POST /entity/users/{user_id}/enable', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
    await ada.post(`/entity/users/${grace.userId}/disable`, {}, 204);
  });

  it('204: allows sign-ins again; previous sessions stay ended', async () => {
    await ada.post(path(grace.userId), {}, 204);
    const { email, password, refreshToken } = grace;
    await grace.get('/folders', 401);
    await shared.anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 401);
    await shared.anonymous.post('/auth/login', { username: email, password }, 200);
    expect((await auditEntries(shared, grace.userId)).at(-1)).to.include({ action: 'user.enabled' });
  });

  it('204: changes nothing for an enabled user', async () => {
    await ada.post(path(ada.userId), {}, 204);
    expect(await auditEntries(shared, ada.userId)).to.have.length(1);
  });

  it('204: by a team admin for a member of the team', async () => {
    const team = await aTeam(ada, [grace]);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    await lead.post(path(grace.userId), {}, 204);
  });

  it('401: without a token, and for a disabled caller', async () => {
    await shared.anonymous.post(path(grace.userId), {}, 401);
    await grace.post(path(grace.userId), {}, 401);
  });

  it('403: for members, and for team admins outside of their team', async () => {
    const team = await aTeam(ada);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    const member = await aColleague(shared, ada);
    for (const by of [lead, member])
      expect((await by.post(path(grace.userId), {}, 403)).body).include({ code: 'forbidden' });
  });

  it('404: for an unknown user or one of another organization', async () => {
    const eve = await shared.signUp('Eve');
    for (const id of [crypto.randomUUID(), '7']) {
      expect((await ada.post(path(id), {}, 404)).body).to.include({ code: 'user_not_found' });
    }
    await eve.post(path(grace.userId), {}, 404);
  });
});
