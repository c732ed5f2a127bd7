import { expect } from 'chai';
import { userSchema } from '#src/modules/members/members.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { badEmails, badNames, blankNames, eachBad } from '#test/support/bad-fields.ts';
import { aColleague, aTeam, freshEmail } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = (userId: string) => `/entity/users/${userId}`;

describe('PATCH /entity/users/{user_id}', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  const patch = async (by: Member, userId: string, body: object) =>
    userSchema.parse((await by.patch(path(userId), body, 200)).body);

  it('200: changes the display name, or the email that signs in', async () => {
    expect(await patch(ada, grace.userId, { display_name: ' Amazing Grace ' })).to.deep.include({
      user_id: grace.userId,
      email: grace.email,
      display_name: 'Amazing Grace',
      is_org_admin: false,
      teams: [],
    });
    const email = freshEmail('grace');
    expect(await patch(ada, grace.userId, { email: ` ${email.toUpperCase()}` })).to.include({
      email,
      display_name: 'Amazing Grace',
    });
    // Repeating the request changes nothing.
    await patch(ada, grace.userId, { email });
    const { password } = grace;
    await shared.anonymous.post('/auth/login', { username: email, password }, 200);
    await shared.anonymous.post('/auth/login', { username: grace.email, password }, 401);
    const entries = await auditEntries(shared, grace.userId);
    expect(entries.slice(1).map(({ action, detail }) => [action, detail])).to.deep.equal([
      ['user.changed', { email_changed: false, display_name_changed: true }],
      ['user.changed', { email_changed: true, display_name_changed: false }],
    ]);
  });

  it('200: by an org admin for the own account, and by a team admin for a member of the team', async () => {
    const team = await aTeam(ada, [grace]);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    await patch(ada, ada.userId, { display_name: 'Countess' });
    await patch(lead, grace.userId, { display_name: 'Commodore' });
  });

  it('401: without a token', async () => {
    await shared.anonymous.patch(path(grace.userId), { display_name: 'x' }, 401);
  });

  it('403: for members, and for team admins outside of their teams', async () => {
    const [red, blue] = [await aTeam(ada), await aTeam(ada)];
    const lead = await aColleague(shared, ada, 'Lead', { team_id: red, is_team_admin: true });
    const inBoth = await aColleague(shared, ada, 'Both', { team_id: red });
    await ada.put(`/entity/teams/${blue}/members/${inBoth.userId}`, {}, 200);
    await ada.put(`/entity/teams/${red}/members/${ada.userId}`, {}, 200);
    const refused = async (by: Member, target: Member) => {
      const { body } = await by.patch(path(target.userId), { display_name: 'Mine' }, 403);
      expect(body).to.include({ code: 'forbidden' });
    };
    // The users are in no team, also in another team, and an org admin.
    for (const target of [grace, inBoth, ada]) await refused(lead, target);
    await refused(grace, grace);
    await ada.delete(`/entity/teams/${blue}`, 204);
    await patch(lead, inBoth.userId, { display_name: 'Ours' });
  });

  it('403: for a team admin who added the member to the team', async () => {
    const team = await aTeam(ada);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    const member = `/entity/teams/${team}/members/${grace.userId}`;
    await lead.put(member, {}, 200);
    await lead.patch(path(grace.userId), { email: freshEmail() }, 403);
    // A second team admin, whom the first one has promoted, may not either.
    const helper = await aColleague(shared, ada, 'Helper', { team_id: team, is_team_admin: true });
    await lead.delete(member, 204);
    await helper.put(member, {}, 200);
    await lead.patch(path(grace.userId), { email: freshEmail() }, 403);
    // An org admin can entrust the member to the team.
    await ada.put(member, {}, 200);
    await patch(lead, grace.userId, { display_name: 'Ours' });
  });

  it('404: for an unknown user or one of another organization', async () => {
    const eve = await shared.signUp('Eve');
    for (const id of [crypto.randomUUID(), eve.userId, '7']) {
      for (const member of [ada, grace]) {
        const { body } = await member.patch(path(id), { display_name: 'x' }, 404);
        expect(body).to.include({ code: 'user_not_found' });
      }
    }
  });

  it('409: for an email with an account, also for concurrent requests', async () => {
    const eve = await shared.signUp('Eve');
    const { body } = await ada.patch(path(grace.userId), { email: eve.email }, 409);
    expect(body).to.include({ code: 'email_taken' });
    const email = freshEmail();
    const take = (by: Member, userId: string) => {
      const headers = { 'content-type': 'application/json' };
      return by.raw(path(userId), { method: 'PATCH', headers, body: JSON.stringify({ email }) });
    };
    const replies = await Promise.all([take(ada, grace.userId), take(eve, eve.userId), take(ada, ada.userId)]);
    expect(replies.map(({ status }) => status).sort()).to.deep.equal([200, 409, 409]);
  });

  it('422: without fields, with unknown ones or with invalid ones', async () => {
    for (const wrong of [
      {},
      { first_name: 'Grace' },
      { is_org_admin: true },
      { disabled: true },
      ...eachBad({}, 'email', badEmails),
      ...eachBad({}, 'display_name', [...badNames, ...blankNames]),
    ]) {
      expect((await ada.patch(path(grace.userId), wrong, 422)).body).to.include({ code: 'validation_failed' });
    }
  });
});
