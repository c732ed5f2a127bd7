import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import type { Container } from '#src/container.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { finishConsent } from '#test/support/finish-consent.ts';
import {
  anotherProcess,
  beginConsent,
  callProviderTool,
  connectionOf,
  consentTo,
  readScope,
  type ToolStack,
  toolStack,
  writeScope,
} from '#test/support/tool-stack.ts';

// What consents to tools and to connections have in common: test/api/connectors/consents.test.ts.
describe('the consent to a tool', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
  });

  const finish = (path: string, status: number, member = ada) => finishConsent(api, member, path, status);
  const demote = (admin: Member, { userId }: Member) =>
    admin.patch(`/entity/members/${userId}/org-admin`, { is_org_admin: false }, 200);
  /** An organization with two admins. */
  const twoAdmins = async () => {
    const bob = await api.signUp();
    return [bob, await aColleague(api, bob, 'Grace', { is_admin: true })] as const;
  };
  /** Finishes with the rights of an admin, as if they were read before. @returns the code of the error */
  const refusal = async ({ toolConnections }: Container, path: string, { userId, orgId } = ada) => {
    const { consent_code: consentCode } = Object((await api.anonymous.get(path, 200)).body);
    const rights = { isOrgAdmin: true, teamIds: [], teamAdminOf: [], openTeamIds: [] };
    const answer = { provider: 'google_calendar', consentCode };
    const finished = toolConnections.finishConsent({ ...rights, userId, orgId, requestId: 'r' }, answer);
    return Object(await finished.catch((error: unknown) => error)).code;
  };
  const refusedElsewhere = async (changes: Parameters<typeof anotherProcess>[1]) => {
    const other = anotherProcess(api, changes);
    const code = await refusal(other, await consentTo(api, ada));
    await other.close();
    return code;
  };

  it('200 and 422: begins with all scopes or those that are named, which must be known', async () => {
    for (const [asked, scopes] of [
      ['', [readScope, writeScope]],
      [`?scopes=${encodeURIComponent(readScope)}`, [readScope]],
      [`?scopes=${encodeURIComponent(writeScope)}&scopes=${encodeURIComponent(readScope)}`, [writeScope, readScope]],
    ] as const) {
      expect(new URL(await beginConsent(ada, asked)).searchParams.get('scope')?.split(' ')).deep.equal(scopes);
    }
    for (const query of ['scopes=openid', 'scopes=']) {
      const { body } = await ada.get(`/agents/tools/google_calendar/authorize?${query}`, 422);
      expect(Object(body).errors[0].path).equal('scopes');
    }
  });

  it('200: connects the organization with the scopes that the user has left ticked', async () => {
    const bob = await api.signUp();
    const { body } = await finish(await consentTo(api, bob), 200, bob);
    const { connection } = Object(body);
    expect(connection).include({ provider: 'google_calendar', connected: true, status: 'active' });
    const granted = ({ actions }: { actions: { granted: boolean }[] }) => actions.map((action) => action.granted);
    expect(granted(connection)).deep.equal([true, true]);
    for (const secret of api.google.secrets) expect(JSON.stringify(body)).not.contain(secret);
    await finish(await consentTo(api, bob, { scopes: [writeScope] }), 200, bob);
    expect(granted(await connectionOf(bob, 'google_calendar'))).deep.equal([false, true]);
    const [made, again] = await auditEntries(api, connection.id);
    expect(made).deep.include({ actorId: bob.userId, action: 'tool.connected' });
    expect(made?.detail).include({ provider: 'google_calendar' });
    expect(again).include({ action: 'tool.reconnected' });
  });

  it('200: leaves one connection when two admins consent at once', async () => {
    const [bob, grace] = await twoAdmins();
    const [one, two] = [await consentTo(api, bob), await consentTo(api, grace)];
    await Promise.all([finish(one, 200, bob), finish(two, 200, grace)]);
    expect(await api.container.db('tool_connections').where({ orgId: bob.orgId })).length(1);
    expect(await connectionOf(bob, 'google_calendar')).include({ status: 'active' });
  });

  it('400 and 501: is not finished by another admin, or once its encryption key or the OAuth client is gone', async () => {
    const grace = await aColleague(api, ada, 'Grace', { is_admin: true });
    const { body } = await finish(await consentTo(api, ada), 400, grace);
    expect(body).include({ code: 'consent_invalid', detail: 'Another user began this consent. Begin one yourself.' });
    const encryptionKeys = [{ id: 'other', key: randomBytes(32) }];
    expect(await refusedElsewhere({ encryptionKeys })).equal('consent_invalid');
    const providers = { ...api.config.providers, googleCalendar: { baseUrl: null, client: null } };
    expect(await refusedElsewhere({ providers })).equal('provider_not_configured');
  });

  it('403: is refused to a user who is no admin any more, at its end or during the exchange, and revoked', async () => {
    const [bob, grace] = await twoAdmins();
    const account = { account: 'calendar@bank.example' };
    await finish(await consentTo(api, bob, account), 200, bob);
    const path = await consentTo(api, grace, account);
    await demote(bob, grace);
    const before = api.google.liveGrants();
    expect((await finish(path, 403, grace)).body).include({ code: 'forbidden' });
    expect(api.google.liveGrants()).equal(before);
    api.google.expireTokens();
    await callProviderTool(api.container, bob, 'calendar.list_events');
    const [carl, dora] = await twoAdmins();
    const exchanged = await consentTo(api, dora);
    await demote(carl, dora);
    expect(await refusal(api.container, exchanged, dora)).equal('forbidden');
    expect(api.google.liveGrants()).equal(before);
  });
});
