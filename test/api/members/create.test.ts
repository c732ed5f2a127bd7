import { expect } from 'chai';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { userSchema } from '#src/modules/members/members.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { badEmails, badNames, badPasswords, badSwitches, eachBad } from '#test/support/bad-fields.ts';
import { aColleague, aTeam, freshEmail } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { itHoldsTheLimit, post } from '#test/support/exact-limit.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = '/entity/members';
const password = 'Correct-horse-1';

describe('POST /entity/members', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const create = async (fields: object = {}) =>
    userSchema.parse((await ada.post(path, { email: freshEmail(), password, ...fields }, 201)).body);
  const signIn = async ({ email }: { email: string }) => {
    const { body } = await shared.anonymous.post('/auth/login', { username: email, password }, 200);
    return shared.anonymous.withToken((body as { access_token: string }).access_token);
  };

  it('201: creates a user who can sign in and has a personal folder', async () => {
    const email = freshEmail('grace');
    const user = await create({ email: ` ${email.toUpperCase()} `, display_name: ' Grace ' });
    expect(user).to.deep.include({
      email,
      first_name: null,
      last_name: null,
      display_name: 'Grace',
      org_id: ada.orgId,
      is_org_admin: false,
      disabled: false,
      teams: [],
    });
    const folders = folderTreeNodeSchema.array().parse((await (await signIn(user)).get('/folders', 200)).body);
    expect(folders.map(({ system_role, can_write }) => [system_role, can_write])).to.have.deep.members([
      ['org_root', false],
      ['personal_root', true],
    ]);
    const [entry] = await auditEntries(shared, user.user_id);
    expect(entry).to.deep.include({
      actorId: ada.userId,
      action: 'member.added',
      detail: { is_org_admin: false, team_id: null },
    });
  });

  it('201: derives the display name from the email if the name is missing or blank', async () => {
    expect((await create({ email: `x${freshEmail('grace')}`, display_name: '\u200b ' })).display_name).match(
      /^xgrace-/,
    );
  });

  it('201: creates another org admin', async () => {
    const admin = await create({ is_admin: true });
    expect(admin.is_org_admin).to.equal(true);
    await (await signIn(admin)).patch('/entity/org', { name: 'Ours' }, 200);
  });

  it('201: adds the user to a team, as member or as team admin', async () => {
    const team = await aTeam(ada);
    expect((await create({ team_id: team })).teams).to.deep.equal([{ team_id: team, is_team_admin: false }]);
    const admin = await create({ team_id: team.toUpperCase(), is_team_admin: true });
    expect(admin.teams).to.deep.equal([{ team_id: team, is_team_admin: true }]);
    await (await signIn(admin)).get(`/entity/teams/${team}/members`, 200);
  });

  it('201: creates one user per Idempotency-Key', async () => {
    const sent = { email: freshEmail(), password };
    const again = () => ada.post(path, sent, 201, { 'Idempotency-Key': sent.email });
    expect((await again()).body).to.deep.equal((await again()).body);
  });

  it('401: without a token', async () => {
    await shared.anonymous.post(path, {}, 401);
  });

  it('403: for members and team admins', async () => {
    const grace = await aColleague(shared, ada);
    const team = await aTeam(ada);
    const lead = await aColleague(shared, ada, 'Lead', { team_id: team, is_team_admin: true });
    const sent = { email: freshEmail(), password, team_id: team };
    for (const member of [grace, lead])
      expect((await member.post(path, sent, 403)).body).include({ code: 'forbidden' });
  });

  it('404: for a team that is unknown, disabled or of another organization', async () => {
    const disabled = await aTeam(ada);
    await ada.delete(`/entity/teams/${disabled}`, 204);
    const foreign = await aTeam(await shared.signUp('Eve'));
    for (const team_id of [crypto.randomUUID(), disabled, foreign]) {
      const { body } = await ada.post(path, { email: freshEmail(), password, team_id }, 404);
      expect(body).to.include({ code: 'team_not_found' });
    }
  });

  it('409: for an email with an account in any organization', async () => {
    const eve = await shared.signUp('Eve');
    for (const email of [ada.email, ` ${eve.email.toUpperCase()}`]) {
      expect((await ada.post(path, { email, password }, 409)).body).to.include({ code: 'email_taken' });
    }
  });

  it('409: for all but one of several concurrent requests with one email, in several organizations', async () => {
    const admins = [ada, await shared.signUp(), await shared.signUp(), await shared.signUp()];
    const email = freshEmail();
    const replies = await Promise.all(admins.map((admin) => post(admin, path, { email, password })));
    expect(replies.map(({ status }) => status).sort()).to.deep.equal([201, 409, 409, 409]);
  });

  itHoldsTheLimit(
    'member_limit_reached',
    async (member) => () => post(member, path, { email: freshEmail(), password }),
    1,
  );

  it('409: when disabled users fill the member limit', async () => {
    const own = await shared.signUp();
    for (let count = 1; count < 10; count += 1) {
      const { userId } = await aColleague(shared, own);
      await own.post(`/entity/users/${userId}/disable`, {}, 204);
    }
    const { body } = await own.post(path, { email: freshEmail(), password }, 409);
    expect(body).to.include({ code: 'member_limit_reached' });
  });

  it('422: for a team admin without a team', async () => {
    const { body } = await ada.post(path, { email: freshEmail(), password, is_team_admin: true }, 422);
    expect(body).to.nested.include({ 'errors[0].path': 'is_team_admin', 'errors[0].code': 'team_required' });
  });

  it('422: for invalid fields', async () => {
    const right = { email: freshEmail(), password };
    for (const wrong of [
      {},
      { email: right.email },
      { password },
      { ...right, org_id: ada.orgId },
      { ...right, first_name: 'Grace' },
      ...eachBad(right, 'email', badEmails),
      ...eachBad(right, 'password', badPasswords),
      ...eachBad(right, 'display_name', badNames),
      ...eachBad(right, 'is_admin', badSwitches),
      ...eachBad(right, 'is_team_admin', badSwitches),
      ...eachBad(right, 'team_id', [7, '', 'x', null, 'x'.repeat(300)]),
    ]) {
      expect((await ada.post(path, wrong, 422)).body).to.include({ code: 'validation_failed' });
    }
  });
});
