import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import type { Container } from '#src/container.ts';
import { allTools } from '#src/domain/agents/tools.ts';
import { toolListSchema } from '#src/modules/tools/tools.schema.ts';
import { aColleague, aPublishedAgent } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { beginConsent, finishConsent } from '#test/support/consents.ts';
import { stack } from '#test/support/stack.ts';
import { auditEntries } from '#test/support/stored-rows.ts';
import {
  anotherProcess,
  calendarPath,
  callProviderTool,
  connectCalendar,
  connectionOf,
  connectSearch,
  consentTo,
  readScope,
  type ToolStack,
  toolStack,
  writeScope,
} from '#test/support/tool-stack.ts';

const search = '/agents/tools/brave_search/connection';
const calendar = '/agents/tools/google_calendar/connection';

describe('an organization and its tools:', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
  });
  beforeEach(async () => {
    ada = await api.signUp();
  });

  describe('the connection of a tool', () => {
    const stored = ({ orgId }: Member) => api.container.db('tool_connections').where({ orgId });
    const actionsOf = async (id: string) => (await auditEntries(api, id)).map(({ action }) => action);

    it('is made with a valid key, which is stored encrypted and can be replaced', async () => {
      const key = await connectSearch(api, ada);
      const { id, ...entry } = await connectionOf(ada, 'brave_search');
      expect(entry).include({ connected: true, status: 'active' });
      const [audited] = await auditEntries(api, id);
      expect(audited).include({ actorId: ada.userId });
      for (const written of [await stored(ada), audited]) expect(JSON.stringify(written)).not.contain(key);
      await connectSearch(api, ada);
      expect(await connectionOf(ada, 'brave_search')).include({ id });
      expect(await actionsOf(id)).deep.equal(['tool.connected', 'tool.reconnected']);
    });

    it('stays as it was when a new key is refused (422) or the provider is down (503); no response repeats a key', async () => {
      await connectSearch(api, ada);
      const before = await stored(ada);
      for (const [reply, status, code] of [
        [null, 422, 'connection_check_failed'],
        [{ status: 401, text: 'about s3cret-guess' }, 422, 'connection_check_failed'],
        [{ status: 403, text: 'about s3cret-guess' }, 422, 'connection_check_failed'],
        [{ status: 422, text: 'about s3cret-guess' }, 422, 'connection_check_failed'],
        [{ status: 404 }, 503, 'provider_unavailable'],
        [{ status: 429 }, 503, 'provider_unavailable'],
        [{ status: 500 }, 503, 'provider_unavailable'],
        [{ status: 200, text: '<html>' }, 503, 'provider_unavailable'],
      ] as const) {
        if (reply !== null) api.brave.failNext(1, reply);
        const { body } = await ada.post(search, { api_key: 's3cret-guess' }, status);
        expect(body).include({ code });
        expect(JSON.stringify(body)).not.contain('s3cret-guess');
      }
      expect(await stored(ada)).deep.equal(before);
    });

    it('is not made with a key for an OAuth provider (409), nor for an unknown provider (404)', async () => {
      expect((await ada.post(calendar, { api_key: 'k' }, 409)).body).include({ code: 'wrong_auth_kind' });
      const unknown = '/agents/tools/unknown/connection';
      for (const { body } of [await ada.post(unknown, { api_key: 'k' }, 404), await ada.delete(unknown, 404)]) {
        expect(body).include({ code: 'provider_not_found' });
      }
    });

    it('is deleted and its grant is revoked; deleting it again succeeds, as does deleting while the provider is down', async () => {
      const stranger = await api.signUp();
      for (const admin of [stranger, ada]) await connectSearch(api, admin);
      await connectCalendar(api, ada);
      const { id } = await connectionOf(ada, 'google_calendar');
      const before = api.google.liveGrants();
      for (const _ of [1, 2]) await ada.delete(calendar, 204);
      expect(api.google.liveGrants()).equal(before - 1);
      const none = { id: null, status: 'not_connected', auth_actions: ['connect'] };
      expect(await connectionOf(ada, 'google_calendar')).deep.include(none);
      expect(await actionsOf(id)).deep.equal(['tool.connected', 'tool.disconnected']);
      await connectCalendar(api, ada);
      api.google.failNext(1, { status: 503 });
      await ada.delete(calendar, 204);
      expect(await connectionOf(ada, 'google_calendar')).include({ status: 'not_connected' });
      await stranger.delete(search, 204);
      expect(await connectionOf(ada, 'brave_search'), 'of another organization and provider').include({
        status: 'active',
      });
    });
  });

  // What consents to tools and to connections have in common: test/api/connectors/consents.test.ts.
  describe('the consent to a tool', () => {
    const finish = (path: string, status: number, member = ada) => finishConsent(api, member, path, status);
    const demote = (admin: Member, { userId }: Member) =>
      admin.patch(`/entity/members/${userId}/org-admin`, { is_org_admin: false }, 200);
    const twoAdmins = async () => {
      const bob = await api.signUp();
      return [bob, await aColleague(api, bob, 'Grace', { is_admin: true })] as const;
    };
    /** Finishes with the rights of an admin, as if they were read before. @returns the code of the error */
    const refusal = async ({ toolConnections }: Container, path: string, { userId, orgId } = ada) => {
      const { consent_code: consentCode } = Object((await api.anonymous.get(path, 200)).body);
      const rights = {
        isOrgAdmin: true,
        teamIds: [],
        teamAdminOf: [],
        openTeamIds: [],
        contributesToOrganization: false,
      };
      const answer = { provider: 'google_calendar', consentCode };
      const finished = toolConnections.finishConsent({ ...rights, userId, orgId, requestId: 'r' }, answer);
      return Object(await finished.catch((error: unknown) => error)).code;
    };

    it('begins with all scopes, or with the named scopes, which must be known (422)', async () => {
      for (const [asked, scopes] of [
        [[], [readScope, writeScope]],
        [[readScope], [readScope]],
        [
          [writeScope, readScope],
          [writeScope, readScope],
        ],
      ]) {
        const page = new URL(await beginConsent(ada, calendarPath, { scopes: asked }));
        expect(page.searchParams.get('scope')?.split(' ')).deep.equal(scopes);
      }
      for (const query of ['scopes=openid', 'scopes=']) {
        const { body } = await ada.get(`/agents/tools/google_calendar/authorize?${query}`, 422);
        expect(Object(body).errors[0].path).equal('scopes');
      }
    });

    it('connects the organization with the scopes that the user has left ticked', async () => {
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

    it('leaves one connection when two admins consent at once', async () => {
      const [bob, grace] = await twoAdmins();
      const [one, two] = [await consentTo(api, bob), await consentTo(api, grace)];
      await Promise.all([finish(one, 200, bob), finish(two, 200, grace)]);
      expect(await api.container.db('tool_connections').where({ orgId: bob.orgId })).length(1);
      expect(await connectionOf(bob, 'google_calendar')).include({ status: 'active' });
    });

    it('cannot be finished after the encryption key or the OAuth client was removed from the settings', async () => {
      const encryptionKeys = [{ id: 'other', key: randomBytes(32) }];
      const providers = { ...api.config.providers, googleCalendar: { baseUrl: null, client: null } };
      for (const [changes, code] of [
        [{ encryptionKeys }, 'consent_invalid'],
        [{ providers }, 'provider_not_configured'],
      ] as const) {
        const other = anotherProcess(api, changes);
        expect(await refusal(other, await consentTo(api, ada))).equal(code);
        await other.close();
      }
    });

    it('is refused and revoked (403) if the user stops being an admin before the consent is finished', async () => {
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

  describe('the tools of an organization', () => {
    const toolsOf = async (member: Member) => toolListSchema.parse((await member.get('/agents/tools', 200)).body).items;
    const toolOf = async (member: Member, id: string) => (await toolsOf(member)).find((item) => item.id === id);
    const connectionsOf = async (member: Member) => {
      const { items, ...others } = Object((await member.get('/agents/tools/connections', 200)).body);
      return { ...others, brave: items[0], google: items[1], all: items };
    };

    it('are listed at /agents/tools with what they require; a tool is unavailable if its provider is not configured', async () => {
      expect((await toolsOf(ada)).map(({ id }) => id)).deep.equal(allTools.map(({ id }) => id));
      const search = await toolOf(ada, 'web.search');
      expect(search).include({ group: 'web', requires_credentials: true, auth_kind: 'api_key' });
      expect(search)
        .include({ available: true, connected: false })
        .nested.property('credential_fields[0].id', 'api_key');
      const create = await toolOf(ada, 'calendar.create_event');
      expect(create).deep.include({ auth_kind: 'oauth', credential_fields: [] });
      expect(create).nested.include({ 'actions[0].crudl': 'create', 'actions[0].granted': false });
      for (const { id } of allTools.filter(({ provider }) => provider === null)) {
        const builtIn = await toolOf(ada, id);
        expect(builtIn, id).include({ requires_credentials: false, auth_kind: 'none', connected: true });
        expect(builtIn?.actions.every(({ granted }) => granted)).equal(true);
      }
      const eve = await (await stack()).signUp();
      expect(await toolOf(eve, 'calendar.list_events'), 'no OAuth client').include({ available: false });
      expect(await toolOf(eve, 'web.search')).include({ available: true });
    });

    it('are listed to an admin by provider, with the status and possible actions of the connection', async () => {
      const { brave, google, is_org_admin } = await connectionsOf(ada);
      expect(is_org_admin).equal(true);
      expect(brave).deep.include({
        id: null,
        provider: 'brave_search',
        name: 'Brave Search',
        connected: false,
        status: 'not_connected',
        configured: true,
        auth_mode: 'api_key',
        category: 'integration',
        scope_options: [],
        tools: ['web.search'],
        auth_actions: ['connect'],
      });
      expect(google).deep.include({ provider: 'google_calendar', auth_mode: 'oauth', credential_fields: [] });
      expect(google.scope_options).length(2);
      expect(google.actions.map(({ id }: { id: string }) => id)).deep.equal(google.tools);
    });

    it('are connected for all members, with granted scopes only, and no response contains credentials', async () => {
      const [grace, stranger] = [await aColleague(api, ada), await api.signUp()];
      const key = await connectSearch(api, ada);
      await connectCalendar(api, ada, { scopes: [readScope] });
      for (const member of [ada, grace]) {
        expect(await toolOf(member, 'web.search')).include({ connected: true });
        for (const [id, granted] of [
          ['calendar.list_events', true],
          ['calendar.create_event', false],
        ] as const) {
          expect(await toolOf(member, id)).nested.include({ connected: true, 'actions[0].granted': granted });
        }
      }
      expect(await toolOf(stranger, 'web.search')).nested.include({ connected: false, 'actions[0].granted': false });

      const { brave, google, all } = await connectionsOf(ada);
      expect(brave).deep.include({ connected: true, status: 'active', auth_actions: ['reconnect', 'disconnect'] });
      expect(google.scope_options.map(({ granted }: { granted: boolean }) => granted)).deep.equal([true, false]);
      for (const secret of [key, ...api.google.secrets]) expect(JSON.stringify(all)).not.contain(secret);
      const seen = await connectionsOf(grace);
      expect(seen).nested.include({ is_org_admin: false, 'brave.connected': true });
      for (const { auth_actions } of seen.all) expect(auth_actions).deep.equal([]);
    });

    it('must be connected for an agent that uses them to be `ready`; it is not `ready` once one is disconnected', async () => {
      const [bob, eve] = [await api.signUp(), await api.signUp('Eve')];
      const id = await aPublishedAgent(bob, { enabled_tools: ['web.search', 'time.now'] });
      const isReady = async () => Object((await bob.get(`/agents/${id}`, 200)).body).ready;
      await connectSearch(api, eve);
      expect(await isReady()).equal(false);
      const key = await connectSearch(api, bob);
      expect(await isReady()).equal(true);
      expect(Object((await bob.get('/agents', 200)).body).items[0]).include({ id, ready: true });
      api.brave.withdraw(key);
      await bob.delete('/agents/tools/brave_search/connection', 204);
      expect(await isReady()).equal(false);
    });
  });
});
