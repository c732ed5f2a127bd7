import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { type ApiKeyScope, apiKeyScopes } from '#src/domain/access/api-keys.ts';
import type { HttpRoute } from '#src/http/routing/route.ts';
import { apiKeyListSchema } from '#src/modules/api-keys/api-keys.schema.ts';
import { aColleague, aDocumentIn, anApiKey, aTeam, freshEmail, readDocument, rootOf } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { askRoute } from '#test/support/route-requests.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { auditEntries } from '#test/support/stored-rows.ts';

const path = '/entity/org/api-keys';

/** By hand from docs/accounts.md: the scope that opens the writes of a tag, and with `read` its reads. */
const scopeOfTag: Record<string, ApiKeyScope> = {
  ...{ 'agent-drafts': 'evaluate', 'agent-eval': 'evaluate', agents: 'evaluate', 'anchor-words': 'evaluate' },
  ...{ connectors: 'ingest', documents: 'ingest', folders: 'ingest', jobs: 'ingest', rag: 'ingest' },
  ...{ organization: 'administer', teams: 'administer', tools: 'administer', users: 'administer' },
  ...{ chat: 'chat', logs: 'read', models: 'read' },
};
const forSessionsOnly = [
  ...['listSessions', 'endOtherSessions', 'endSession', 'changePassword', 'setPassword', 'deleteAccount'],
  ...['getProfile', 'updateProfile', 'getAvatar', 'uploadAvatar', 'deleteAvatar', 'deleteOrganization'],
  ...['authorizeConnector', 'finishConnectorConsent', 'authorizeTool', 'finishToolConsent', 'signUrl'],
  ...['createApiKey', 'listApiKeys', 'rotateApiKey', 'revokeApiKey'],
];

function scopesOf({ operationId, tag, method, access }: HttpRoute): readonly (ApiKeyScope | undefined)[] {
  if (forSessionsOnly.includes(operationId)) return [];
  if (operationId === 'getMembership') return apiKeyScopes;
  const reads = method === 'get' && access !== 'organization:administer';
  return reads ? ['read', scopeOfTag[tag]] : [scopeOfTag[tag]];
}

describe('API keys', () => {
  let api: Stack;
  let ada: Member;
  before(async () => {
    api = await stack();
  });
  beforeEach(async () => {
    ada = await api.signUp();
  });

  const list = async () => apiKeyListSchema.parse((await ada.get(path, 200)).body).items;
  const stored = (id: string) => api.container.db('api_keys').where({ userId: id });
  /** The service caches the rights of callers for two seconds, unless the process changes those of the organization. */
  const emptyCache = () => ada.patch('/entity/org', { name: 'Acme' }, 200);
  const refuse = async (client: ApiClient, status: number, code: string) =>
    expect((await client.get('/documents', status)).body).include({ code });

  it('are created by an admin; the secret is shown once and stored as a hash', async () => {
    const team = await aTeam(ada);
    const { key } = await anApiKey(ada, ['ingest', 'read', 'read'], { team_ids: [team, team] });
    const { secret, ...shown } = key;
    expect(secret).match(/^acs_[\w-]{43}$/);
    expect(shown).deep.include({ name: 'Importer', scopes: ['read', 'ingest'], team_ids: [team], last_used_at: null });
    expect(shown).include({ hint: secret.slice(-4), created_by: ada.userId, created_by_name: 'Ada' });
    expect(await list()).deep.equal([shown]);
    const row = await stored(key.id).first();
    expect(row.secretHash).deep.equal(createHash('sha256').update(secret).digest());
    expect(JSON.stringify(row)).not.contain(secret);
    const [entry] = await auditEntries(api, key.id);
    const recorded = { action: 'api_key.created', actorId: ada.userId, target: key.id };
    expect(entry).deep.include({ ...recorded, detail: { scopes: 'read ingest' } });
    await ada.post(path, { name: 'x', scopes: ['read'], expires_at: null, team_ids: [crypto.randomUUID()] }, 404);
  });

  it('act as a user of their own, who is no member, and outlive the admin who made them', async () => {
    const grace = await aColleague(api, ada, 'Grace', { is_admin: true });
    const importer = await anApiKey(grace, ['read', 'ingest']);
    const personal = await aDocumentIn(grace, await rootOf(grace, 'personal_root'));
    await ada.delete(`/entity/members/${grace.userId}`, 204);
    const me = Object((await importer.get('/entity/me/membership', 200)).body);
    expect(me).include({ org_id: ada.orgId, user_id: importer.key.id, is_org_admin: false });
    const id = await aDocumentIn(importer, await rootOf(importer, 'org_root'));
    expect(await readDocument(ada, id)).include({ created_by: importer.key.id, created_by_name: 'Importer' });
    await importer.get(`/documents/${personal}`, 404);
    const { items } = Object((await ada.get('/entity/members', 200)).body);
    expect(items).length(1);
    await ada.post(`/entity/users/${importer.key.id}/disable`, {}, 404);
    await ada.delete(`/entity/members/${importer.key.id}`, 404);
    expect((await ada.delete('/auth/account', 204, { password: ada.password })).status).equal(204);
    await refuse(importer, 401, 'invalid_token');
  });

  it('read and add to the content of their teams, and with `administer` that of all teams', async () => {
    const grace = await aColleague(api, ada);
    const team_ids = [await aTeam(ada, [grace])];
    const root = await rootOf(grace, 'team_root');
    const id = await aDocumentIn(grace, root);
    const [outside, inside] = [await anApiKey(ada, ['read', 'ingest']), await anApiKey(ada, ['ingest'], { team_ids })];
    const admin = await anApiKey(ada, ['read', 'administer']);
    await outside.get(`/documents/${id}`, 404);
    for (const key of [inside, admin]) await key.get(`/documents/${id}`, 200);
    await grace.get(`/documents/${await aDocumentIn(inside, root)}`, 200);
    const { items } = Object((await grace.get(`/entity/teams/${team_ids[0]}/members`, 200)).body);
    expect(items).length(1);
    await admin.post('/entity/members', { email: freshEmail(), password: 'Correct-horse-1' }, 201);
  });

  it('open exactly the routes of their scopes; every route has its scopes', async () => {
    const keys = new Map<ApiKeyScope, ApiClient>();
    for (const scope of apiKeyScopes) keys.set(scope, await anApiKey(ada, [scope]));
    const ids = new Proxy({}, { get: () => '0197f1a0-0000-7000-8000-000000000000' });
    const wrong: string[] = [];
    for (const route of api.routes.filter(({ access }) => access !== 'public')) {
      const scopes = scopesOf(route);
      if (scopes.includes(undefined)) wrong.push(`${route.operationId}: no scope for the tag ${route.tag}`);
      for (const [scope, key] of keys) {
        const answer = await askRoute(key, { ...route, path: `${route.path}?no_such_parameter=1` }, ids);
        const { code, detail } = Object(await answer.json());
        const refusal = scopes.length === 0 ? 'session_required' : 'insufficient_scope';
        const isRefused = ['session_required', 'insufficient_scope'].includes(code);
        if (isRefused ? scopes.includes(scope) || code !== refusal : !scopes.includes(scope))
          wrong.push(`${route.operationId} with ${scope}: ${code}`);
        if (code !== 'insufficient_scope') continue;
        expect(detail, route.operationId).contain(`\`${scopes[0]}\``).and.contain(`this key has \`${scope}\``);
        expect(answer.headers.get('www-authenticate')).equal('Bearer error="insufficient_scope"');
      }
    }
    expect(wrong).deep.equal([]);
  });

  it('stop working at once when they are revoked, and what only they could read is erased', async () => {
    const importer = await anApiKey(ada, ['ingest']);
    const id = await aDocumentIn(importer, await rootOf(importer, 'personal_root'));
    await importer.get(`/documents/${id}`, 200);
    await ada.delete(`${path}/${importer.key.id}`, 204);
    await refuse(importer, 401, 'invalid_token');
    expect(await list()).deep.equal([]);
    expect(await stored(importer.key.id)).deep.equal([]);
    const acts = (await auditEntries(api, importer.key.id)).map(({ actorId, action }) => [actorId, action]);
    expect(acts).deep.include([ada.userId, 'api_key.revoked']);
    expect((await ada.get(`/jobs/erase-${importer.key.id}`, 200)).body).include({ kind: 'erase' });
    await ada.delete(`${path}/${importer.key.id}`, 404);
  });

  it('keep their user when they get a new secret, which ends the previous one', async () => {
    const importer = await anApiKey(ada, ['read', 'ingest']);
    const { id } = importer.key;
    await importer.get('/documents', 200);
    const expires_at = new Date(Date.now() + 60_000).toISOString();
    const { secret, ...key } = Object((await ada.post(`${path}/${id}/rotate`, { expires_at }, 200)).body);
    expect(key).include({ id, expires_at });
    await refuse(importer, 401, 'invalid_token');
    const renewed = ada.withToken(secret);
    expect((await renewed.get('/entity/me/membership', 200)).body).include({ user_id: id });
    await stored(id).update({ expiresAt: new Date(Date.now() - 1) });
    await emptyCache();
    await refuse(renewed, 401, 'invalid_token');
    expect(await list()).length(1);
    const other = await api.signUp();
    for (const ask of [other.delete(`${path}/${id}`, 404), other.post(`${path}/${id}/rotate`, { expires_at }, 404)])
      expect((await ask).body).include({ code: 'api_key_not_found' });
  });

  it('record their last use at most once a minute', async () => {
    const importer = await anApiKey(ada, ['read']);
    const lastUseAfter = async (secondsAgo: number) => {
      const lastUsedAt = new Date(Date.now() - secondsAgo * 1_000);
      await stored(importer.key.id).update({ lastUsedAt });
      await emptyCache();
      await importer.get('/documents', 200);
      return (await list())[0]?.last_used_at === lastUsedAt.toISOString() ? 'kept' : 'renewed';
    };
    await importer.get('/documents', 200);
    expect((await list())[0]?.last_used_at).not.equal(null);
    expect(await lastUseAfter(50)).equal('kept');
    expect(await lastUseAfter(61)).equal('renewed');
  });

  it('have idempotency keys of their own', async () => {
    const headers = { 'idempotency-key': 'import-1' };
    const paste = async (client: ApiClient) =>
      Object(
        (await client.post('/documents/paste', { name: 'n', content: 'c', source_format: 'text' }, 201, headers)).body,
      ).id;
    const [one, other] = [await anApiKey(ada, ['ingest']), await anApiKey(ada, ['ingest'])];
    const id = await paste(one);
    expect(await paste(one)).equal(id);
    expect(await paste(other)).not.equal(id);
  });

  it('are at most 50 (409)', async () => {
    for (let made = 0; made < 50; made += 1) await anApiKey(ada, ['read']);
    const { body } = await ada.post(path, { name: 'One more', scopes: ['read'], expires_at: null }, 409);
    expect(body).include({ code: 'api_key_limit_reached' });
    const first = apiKeyListSchema.parse((await ada.get(`${path}?limit=49`, 200)).body);
    const second = apiKeyListSchema.parse((await ada.get(`${path}?cursor=${first.next_cursor}`, 200)).body);
    expect([first.items.length, second.items.length, second.next_cursor]).deep.equal([49, 1, null]);
  });
});
