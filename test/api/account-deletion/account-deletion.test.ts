import { expect } from 'chai';
import type { Knex } from 'knex';
import { erasureWorkflowId, syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import {
  aColleague,
  aDocumentIn,
  anIngestedDocument,
  aPublishedAgent,
  ask,
  openChatStream,
  rootOf,
} from '#test/support/builders.ts';
import { type Member, sendJson, statusesOf } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ConnectorStack, connect, startConnectorStack } from '#test/support/connector-stack.ts';
import { exportOf } from '#test/support/exported.ts';
import { expectInvariants } from '#test/support/fault-case.ts';
import { gifOfFrames, uploadAvatar } from '#test/support/images.ts';
import { importFiles } from '#test/support/import-stack.ts';
import { type ScriptedStack, scriptedStack, stoppedIngestion } from '#test/support/scripted-stack.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { auditEntries } from '#test/support/stored-rows.ts';
import { membersAndRemains, remainsOf, remainsOfOrganization, tracesOf } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

/** A request that deletes the account of `grace`, what a second one at the same time gets, and its audit entry. */
const deletions: Record<string, (ada: Member, grace: Member) => [Promise<Response>, number, target: string, object]> = {
  'an admin removes the member': (ada, { userId }) => {
    const entry = { actorId: ada.userId, action: 'member.removed', detail: {} };
    return [sendJson(ada, 'DELETE', `/entity/members/${userId}`), 404, userId, entry];
  },
  'the user deletes their own account': (_, grace) => {
    const entry = { actorId: grace.userId, action: 'account.deleted' };
    return [sendJson(grace, 'DELETE', '/auth/account', { password: grace.password }), 401, grace.userId, entry];
  },
  'an admin deletes the organization': (ada) => {
    const entry = { actorId: ada.userId, action: 'organization.deleted', detail: { members: 3 } };
    return [sendJson(ada, 'DELETE', '/entity/org'), 401, ada.orgId, entry];
  },
};

describe('deleting an account', () => {
  let stack: ScriptedStack;
  let finish: PromiseWithResolvers<void>;
  beforeEach(async () => {
    stack = await scriptedStack();
    finish = Promise.withResolvers();
    stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
  });
  afterEach(() => {
    finish.resolve();
    stack.model.failEmbeddings(false);
  });

  for (const [title, remove] of Object.entries(deletions)) {
    it(`ends its sessions, streams, unfinished answer and personal jobs, and frees its email (${title})`, async () => {
      const isOrganizationGone = title.endsWith('organization');
      const { anonymous } = stack;
      const [ada, eve] = [await stack.signUp(), await stack.signUp('Eve')];
      const [grace, away] = [await aColleague(stack, ada, 'Grace', { is_admin: true }), await aColleague(stack, ada)];
      await ada.post(`/entity/users/${away.userId}/disable`, {}, 204);
      const { email, password } = grace;
      const { body: other } = await anonymous.post('/auth/login', { username: email, password }, 200);
      const rowOf = (table: string, where: object) => stack.container.db(table).where(where).first();
      const personal = await stoppedIngestion(stack, grace, 'parked');
      const shared = await stoppedIngestion(stack, grace, 'parked', await rootOf(grace, 'org_root'));
      const agentId = await aPublishedAgent(grace);
      const events = await openChatStream(grace, { agent_id: agentId, message: 'How is a loan repaid?' });
      await events.next();

      const [[first, status, target, entry], [second]] = [remove(ada, grace), remove(ada, grace)];
      expect(await statusesOf([first, second])).deep.equal([204, status]);
      expect((await auditEntries(stack, target)).at(-1)).deep.include(entry);
      await grace.get('/folders', 401);
      for (const refresh_token of [grace.refreshToken, Object(other).refresh_token]) {
        await anonymous.post('/auth/refresh_tokens', { refresh_token }, 401);
      }
      await anonymous.post('/auth/login', { username: email, password }, 401);
      await anonymous.post('/auth/register', { email, password }, 201);
      await anonymous.post('/auth/register', { email: away.email, password }, isOrganizationGone ? 201 : 409);
      await ada.get('/folders', isOrganizationGone ? 401 : 200);
      await eve.get('/folders', 200);
      expect((await collect(events)).map(({ event }) => event)).deep.equal(['error']);
      const round = await until('the round is over', () => rowOf('rounds', { orgId: ada.orgId, status: 'error' }));
      expect(round).include({ errorCode: 'account_disabled', assistantReply: null });
      const cancelled = { id: personal.jobId, status: 'cancelled' };
      await until('the personal run is cancelled', () => rowOf('jobs', cancelled));
      const erasure = { id: erasureWorkflowId(isOrganizationGone ? ada.orgId : grace.userId), stage: 'wait' };
      await until('the erasure waits for its due day', () => rowOf('jobs', erasure));
      // Runs of documents that others can read go on.
      expect(await rowOf('jobs', { id: shared.jobId })).include({
        status: isOrganizationGone ? 'cancelled' : 'parked',
      });
    });
  }
});

describe('connections to file providers', () => {
  let api: ConnectorStack;
  before(async () => {
    api = await startConnectorStack({ ERASE_AFTER_DAYS: '0' }, { workers: true });
  });
  after(() => api.close());
  afterEach(() => expectInvariants(api));

  const isOpen = async (jobId: string) => (await api.container.orchestrator.describe(jobId)) === 'open';
  const isScheduled = (id: string) =>
    api.container.temporal.client.schedule
      .getHandle(syncWorkflowId(id))
      .describe()
      .then(Boolean, () => false);

  /** Creates a connection with an hourly sync, and an import that is parked after its consent was revoked. */
  async function parkedImport(member: Member, folder: string) {
    const fake = api.fakes.acme_drive;
    fake.tree.add(`${folder}/first.txt`, `First of ${folder}.`);
    const { id } = await connect(api, member, 'acme_drive');
    const sync = { enabled: true, interval_minutes: 60, folder };
    await member.patch(`/connectors/connections/${id}`, { config: { sync } }, 200);
    await importFiles(member, { connection_id: id, files: [{ path: folder }] });
    fake.tree.add(`${folder}/second.txt`, `Second of ${folder}.`);
    fake.revokeGrants();
    const [result] = await importFiles(member, { connection_id: id, files: [{ path: folder }] }, { wait: 0 });
    await untilJob(member, result?.job_id ?? '', 'parked');
    expect(await isScheduled(id)).equal(true);
    return { id: String(id), jobId: result?.job_id ?? '' };
  }

  it('of a deleted user are revoked and deleted, with their schedules, syncs and documents', async () => {
    const ada = await api.signUp();
    const grace = await aColleague(api, ada);
    const { id, jobId } = await parkedImport(grace, 'of grace');
    const live = () => [api.fakes.acme_drive, api.fakes.acme_dropbox].map(({ liveGrants }) => liveGrants());
    const before = live();
    for (const provider of ['acme_drive', 'acme_dropbox'] as const) {
      await connect(api, grace, provider, { account: grace.userId });
    }
    expect(live()).deep.equal(before.map((count) => count + 1));
    await ada.delete(`/entity/members/${grace.userId}`, 204);
    await untilJob(ada, erasureWorkflowId(grace.userId), 'succeeded');
    expect(live()).deep.equal(before);
    expect([await isOpen(jobId), await isScheduled(id)]).deep.equal([false, false]);
    const { userIds, remains } = await membersAndRemains(api, ada.orgId);
    const tables = ['connections', 'import_runs', 'connector_documents', 'connection_schedules', 'documents'];
    expect(remains).not.include.oneOf(tables);

    const own = await parkedImport(ada, 'of ada');
    await ada.delete('/entity/org', 204);
    const isGone = async () => (await remainsOfOrganization(api, ada.orgId, userIds)).length === 0;
    await until('nothing of the organization is left', isGone);
    expect([await isOpen(own.jobId), await isScheduled(own.id)]).deep.equal([false, false]);
  });

  it('of a disabled user start no sync, and a running sync stops at the next file', async () => {
    const ada = await api.signUp();
    const grace = await aColleague(api, ada);
    const { id, jobId } = await parkedImport(grace, 'of a disabled one');
    await ada.post(`/entity/users/${grace.userId}/disable`, undefined, 204);
    const queued = await api.container.syncs.queueScheduled({ orgId: ada.orgId, connectionId: id });
    expect(queued).include({ jobId: null });
    const { db } = api.container;
    await db('connections').where({ id }).update({ status: 'active' });
    const failed = db('jobs').where({ id: jobId, status: 'failed' });
    const job = await until('the import has failed', () => failed.clone().first());
    expect(job).include({ errorCode: 'account_disabled' });
  });
});

describe('the erasure of deleted accounts', () => {
  let own: Stack;
  let db: Knex;
  let ada: Member;
  let grace: Member;

  before(async () => {
    own = await startStack({ ERASE_AFTER_DAYS: '0' });
    db = own.container.db;
  });
  after(() => own.close());
  beforeEach(async () => {
    ada = await own.signUp();
    grace = await aColleague(own, ada, 'Grace', { is_admin: true });
  });
  afterEach(() => expectInvariants(own));

  const countOf = async (table: string, where: object) => (await db(table).where(where)).length;
  const identify = ({ userId }: Member) =>
    db('userIdentities').insert({ issuer: 'https://id.example', subject: userId, userId });

  async function remove(member: Member): Promise<void> {
    await ada.delete(`/entity/members/${member.userId}`, 204);
    await untilJob(ada, erasureWorkflowId(member.userId), 'succeeded');
  }

  it('removes personal content on the due day, and keeps shared content with the name of its author', async () => {
    const personal = await anIngestedDocument(grace, 'Mine', 'The fox is quick and brown.');
    const inShared = { target_folder_id: await rootOf(grace, 'org_root') };
    const shared = await anIngestedDocument(grace, 'Ours', 'The dog is lazy and grey.', inShared);
    const [ownAgent, emptiedAgent] = [await aPublishedAgent(grace), await aPublishedAgent(grace)];
    const { userId } = grace;
    const visibility = 'org_level';
    const sharedAgent = await aPublishedAgent(grace, { visibility });
    await grace.post(`/agents/${sharedAgent}/hide`, undefined, 204);
    await ask(grace, { agent_id: ownAgent, message: 'How quick is a fox?' }, 201);
    const about = { agent_id: emptiedAgent, message: 'How lazy is a dog?', visibility };
    const { chat_id: sharedChat } = await ask(grace, about, 201);
    await uploadAvatar(grace, gifOfFrames(1), 200);
    await db('users').where({ id: userId }).update({ avatarUrl: 'https://id.example/grace' });
    await identify(grace);
    const traces = await tracesOf(own, personal);
    const [exportOfUser, otherExport] = [await exportOf(grace), await exportOf(ada)];

    await remove(grace);

    expect(await remainsOf(own, traces)).deep.equal([]);
    expect((await ada.get(`/documents/${shared}`, 200)).body).include({ created_by_name: 'Grace' });
    expect((await ada.get(`/agents/${sharedAgent}`, 200)).body).include({ created_by_name: 'Grace' });
    expect((await ada.get(`/chat/${sharedChat}`, 200)).body).include({ agent_deleted: true });
    expect(await countOf('drafts', { createdBy: userId })).equal(1);
    // Invariant I13 checks the other tables after each test.
    for (const table of ['refreshTokenFamilies', 'idempotencyKeys', 'teamMemberships', 'hiddenAgents']) {
      expect(await countOf(table, { userId }), table).equal(0);
    }
    const names = { firstName: null, lastName: null, avatarUrl: null, displayName: 'Grace' };
    expect(await db('users').where({ id: userId }).first()).include({ email: '', passwordHash: null, ...names });
    expect((await auditEntries(own, userId)).at(-1)).include({ action: 'account.erased', actorId: null });
    await ada.get(`/entity/org/exports/${exportOfUser.export_id}`, 404);
    const { body } = await ada.get(`/entity/org/exports/${otherExport.export_id}`, 200);
    expect(Object(body).volumes).length(1);
  });

  it('keeps a document that another user linked into a folder, until that user is deleted too', async () => {
    const id = await aDocumentIn(grace, await rootOf(grace, 'org_root'));
    const second = await aColleague(own, ada, 'Second', { is_admin: true });
    await second.patch(`/documents/${id}`, { target_folder_id: await rootOf(second, 'personal_root') }, 200);
    await ada.get(`/documents/${id}`, 404);
    const traces = await tracesOf(own, id);
    await remove(grace);
    await second.get(`/documents/${id}`, 200);
    await remove(second);
    expect(await remainsOf(own, traces)).deep.equal([]);
  });

  it('also removes content that was stored for a user after their erasure had ended', async () => {
    await remove(grace);
    const of = { orgId: ada.orgId, createdBy: grace.userId, visibility: 'personal', acl: [`user:${grace.userId}`] };
    const id = crypto.randomUUID();
    await db('folders').insert({ ...of, id, rootId: id, name: 'Late', kind: 'user', ownerId: grace.userId });
    await own.container.erasure.eraseLate();
    await until('it is gone', async () => (await countOf('folders', { id })) === 0);
    await untilJob(ada, erasureWorkflowId(grace.userId), 'succeeded');
  });

  it('leaves of an organization only a row without its name, and the audit log', async () => {
    for (const member of [ada, grace]) {
      await anIngestedDocument(member, 'Mine', `The fox of ${member.userId} is quick and brown.`);
      const agentId = await aPublishedAgent(member, { visibility: 'org_level' });
      await ask(member, { agent_id: agentId, message: 'How quick is a fox?' }, 201, { 'idempotency-key': 'once' });
    }
    const { orgId, userId } = ada;
    const of = { orgId, provider: 'google_calendar', scopes: [] };
    const sealed = { credentials: '1:sealed', status: 'active' };
    await db('toolConnections').insert({ ...of, ...sealed, id: crypto.randomUUID() });
    const consent = { ...of, userId, purpose: 'tools', codeVerifier: '1:sealed', redirectUri: 'https://api.example' };
    const expiresAt = new Date(Date.now() + 3_600_000);
    await db('oauthStates').insert({ ...consent, stateHash: Buffer.from(userId), expiresAt });
    await uploadAvatar(grace, gifOfFrames(1), 200);
    await identify(ada);
    await remove(await aColleague(own, ada, 'Gone'));
    await exportOf(ada);
    const before = await membersAndRemains(own, orgId);
    expect(before.remains).include.members([
      ...['documents', 'vectors', 'blobs', 'embeddings', 'rounds', 'tool_connections', 'oauth_states', 'avatars'],
      ...['user_identities', 'exports', 'export_volumes', 'name'],
    ]);
    expect(before.userIds).length(3);

    await ada.delete('/entity/org', 204);

    const left = () => remainsOfOrganization(own, orgId, before.userIds);
    await until('nothing is left', async () => (await left()).length === 0);
    const handle = own.container.temporal.client.workflow.getHandle(erasureWorkflowId(orgId));
    const { byKind } = await handle.result();
    expect(byKind).include({ documents: 2, chats: 2, drafts: 2, agents: 2 });
    // The last step changes nothing when it is repeated.
    await own.container.erasure.forget({ orgId, userId: null });
    const acts = (await auditEntries(own, orgId)).map(({ action, detail }) => [action, detail]);
    expect(acts).deep.equal([
      ['organization.deleted', { members: 2 }],
      ['organization.erased', byKind],
    ]);
  });
});
