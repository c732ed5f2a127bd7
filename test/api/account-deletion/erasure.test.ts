import { expect } from 'chai';
import type { Knex } from 'knex';
import type { SqlOnlyErasureStage } from '#src/contracts/deletion.ts';
import { erasureWorkflowId } from '#src/contracts/workflow-ids.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { uploadAvatar } from '#test/support/avatars.ts';
import { aColleague, aPublishedAgent, ask, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { exportOf } from '#test/support/exported.ts';
import { expectInvariants } from '#test/support/fault-case.ts';
import { gifOfFrames } from '#test/support/poison/images.ts';
import { membersAndRemains, remainsOfOrganization } from '#test/support/remaining-content.ts';
import { remainsOf, tracesOf } from '#test/support/remains.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { systemFolder } from '#test/support/stopped-jobs.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';
import { untilClosed } from '#test/support/workflow-run.ts';

describe('erasure on the due day', () => {
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
    grace = await aColleague(own, ada);
  });
  afterEach(() => expectInvariants(own));

  const countOf = async (table: string, where: object) =>
    Number((await db(table).where(where).count({ count: '*' }).first())?.count);

  async function remove(member: Member): Promise<void> {
    await ada.delete(`/entity/members/${member.userId}`, 204);
    await untilJob(ada, erasureWorkflowId(member.userId), 'succeeded');
  }

  async function ingest(member: Member, name: string, content: string): Promise<string> {
    const text = { name, content, source_format: 'markdown' };
    const { id } = Object((await member.post('/documents/paste', text, 201)).body);
    await untilJob(member, `ingest-${id}-1`, 'succeeded');
    return id;
  }

  /** Stores a document in the organization's root folder, which all members can search. */
  async function share(member: Member, documentId: string): Promise<void> {
    const target_folder_id = await systemFolder(ada, 'org_root');
    await db('memberships').where({ userId: member.userId }).update({ isOrgAdmin: true });
    await until('the user may write there', async () => {
      const body = JSON.stringify({ target_folder_id });
      const headers = { 'content-type': 'application/json' };
      return (await member.raw(`/documents/${documentId}`, { method: 'PATCH', headers, body })).ok;
    });
  }

  /** The connection has another consent in progress. */
  async function connectProvider({ orgId, userId }: Member): Promise<void> {
    const of = { orgId, provider: 'google_calendar', scopes: [] };
    const soon = new Date(Date.now() + 3_600_000);
    await db('toolConnections').insert({ ...of, id: crypto.randomUUID(), status: 'active', credentials: '1:sealed' });
    const consent = { ...of, userId, purpose: 'tools', codeVerifier: '1:sealed', redirectUri: 'https://api.example' };
    await db('oauthStates').insert({ ...consent, stateHash: Buffer.from(userId), expiresAt: soon });
  }

  it('of a user erases personal content and keeps shared content with the name of its author', async () => {
    const personal = await ingest(grace, 'Mine', 'The fox is quick and brown.');
    const shared = await ingest(grace, 'Ours', 'The dog is lazy and grey.');
    await share(grace, shared);
    const ownAgent = await aPublishedAgent(grace);
    const emptiedAgent = await aPublishedAgent(grace);
    const sharedAgent = await aPublishedAgent(grace, { visibility: 'org_level' });
    await grace.post(`/agents/${sharedAgent}/hide`, undefined, 204);
    const { chat_id: ownChat } = await ask(grace, { agent_id: ownAgent, message: 'How quick is a fox?' }, 201);
    const visibility = 'org_level';
    const about = { agent_id: emptiedAgent, message: 'How lazy is a dog?', visibility };
    const { chat_id: sharedChat } = await ask(grace, about, 201);
    await uploadAvatar(grace, gifOfFrames(1), 200);
    await db('users').where({ id: grace.userId }).update({ avatarUrl: 'https://id.example/grace' });
    await db('userIdentities').insert({ issuer: 'https://id.example', subject: grace.userId, userId: grace.userId });
    const traces = await tracesOf(own, personal);

    await remove(grace);

    expect(await remainsOf(own, traces)).deep.equal([]);
    expect((await ada.get(`/documents/${shared}`, 200)).body).include({ created_by_name: 'Grace' });
    expect((await ada.get(`/agents/${sharedAgent}`, 200)).body).include({ created_by_name: 'Grace' });
    await ada.get(`/chat/${sharedChat}`, 200);
    expect(await countOf('chats', { id: ownChat })).equal(0);
    expect(await countOf('rounds', { chatId: ownChat })).equal(0);
    expect(await countOf('agents', { id: ownAgent })).equal(0);
    // A chat that other users read still names the agent.
    const [emptied] = await db('agents').where({ id: emptiedAgent });
    expect(emptied).include({ agentPrompt: '' });
    expect(emptied.deletedAt).instanceOf(Date);
    const drafts: { visibility: string }[] = await db('drafts').where({ createdBy: grace.userId });
    expect(drafts.map((draft) => draft.visibility)).deep.equal(['org_level']);
    expect(await countOf('folders', { ownerId: grace.userId })).equal(0);
    const tablesOfUsers = ['refreshTokenFamilies', 'idempotencyKeys', 'teamMemberships', 'hiddenAgents', 'avatars'];
    for (const table of [...tablesOfUsers, 'userIdentities']) {
      expect(await countOf(table, { userId: grace.userId }), table).equal(0);
    }
    expect(await db('users').where({ id: grace.userId }).first()).include({
      email: '',
      passwordHash: null,
      firstName: null,
      lastName: null,
      avatarUrl: null,
      displayName: 'Grace',
    });
    expect((await auditEntries(own, grace.userId)).at(-1)).include({ action: 'account.erased', actorId: null });
  });

  it('of a user shows its stage and its owner in Temporal', async () => {
    await remove(grace);
    const handle = own.container.temporal.client.workflow.getHandle(erasureWorkflowId(grace.userId));
    expect(await handle.result())
      .property('erased')
      .above(0);
    const run = await handle.describe();
    expect(await run.staticSummary()).equal('Erase the data of a deleted user');
    const attributes = run.typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]);
    expect(Object.fromEntries(attributes)).include({ OrgId: ada.orgId, JobKind: 'erase', Stage: 'done' });
  });

  it('of a user keeps a document that another user linked into a folder, until that user is deleted', async () => {
    const id = await ingest(grace, 'Taken', 'The owl is wise.');
    await share(grace, id);
    const second = await aColleague(own, ada, 'Second', { is_admin: true });
    await second.patch(`/documents/${id}`, { target_folder_id: await systemFolder(second, 'personal_root') }, 200);
    await ada.get(`/documents/${id}`, 404);
    const traces = await tracesOf(own, id);
    await remove(grace);
    await second.get(`/documents/${id}`, 200);
    await remove(second);
    expect(await remainsOf(own, traces)).deep.equal([]);
  });

  it('of a user also erases content that was stored after it ended', async () => {
    await remove(grace);
    const of = { orgId: ada.orgId, createdBy: grace.userId, visibility: 'personal', acl: [`user:${grace.userId}`] };
    const id = crypto.randomUUID();
    await db('folders').insert({ ...of, id, rootId: id, name: 'Late', kind: 'user', ownerId: grace.userId });
    await own.container.erasure.eraseLate();
    await until('it is gone', async () => (await countOf('folders', { id })) === 0);
    await untilJob(ada, erasureWorkflowId(grace.userId), 'succeeded');
  });

  it('of a user deletes only the exports of that user, at once', async () => {
    await ada.patch(`/entity/members/${grace.userId}/org-admin`, { is_org_admin: true }, 200);
    const [ofUser, others] = [await exportOf(grace), await exportOf(ada)];
    await remove(grace);
    await ada.get(`/entity/org/exports/${ofUser.export_id}`, 404);
    const left = await ada.get(`/entity/org/exports/${others.export_id}`, 200);
    expect(Object(left.body).volumes).length(1);
  });

  it('of a user erases nothing if the user is not deleted', async () => {
    await ingest(grace, 'Kept', 'The cat is black.');
    const { erasure } = own.container;
    const of = { orgId: ada.orgId, userId: grace.userId };
    const { signal } = new AbortController();
    await erasure.eraseDocuments({ ...of, erased: 0 }, signal);
    for (const what of ['chats', 'drafts', 'agents', 'folders', 'traces'] satisfies SqlOnlyErasureStage[]) {
      await erasure.eraseRows({ ...of, what, erased: 0 }, signal);
      await erasure.eraseRows({ orgId: ada.orgId, userId: null, what, erased: 0 }, signal);
    }
    await erasure.forget(of);
    await erasure.forget({ orgId: ada.orgId, userId: null });
    expect(Object((await grace.get('/documents', 200)).body).items).length(1);
    expect(await db('users').where({ id: grace.userId }).first()).include({ email: grace.email });
  });

  it('of an organization keeps only a row without a name and the audit log', async () => {
    await aTeam(ada, [grace]);
    for (const member of [ada, grace]) {
      await ingest(member, 'Mine', `The fox of ${member.userId} is quick and brown.`);
      const agentId = await aPublishedAgent(member, { visibility: 'org_level' });
      await ask(member, { agent_id: agentId, message: 'How quick is a fox?' }, 201, { 'idempotency-key': 'once' });
    }
    await connectProvider(ada);
    await uploadAvatar(grace, gifOfFrames(1), 200);
    await db('userIdentities').insert({ issuer: 'https://id.example', subject: ada.userId, userId: ada.userId });
    const gone = await aColleague(own, ada, 'Gone');
    await remove(gone);
    await exportOf(ada);
    const before = await membersAndRemains(own, ada.orgId);
    expect(before.remains).include.members([
      'documents',
      'vectors',
      'blobs',
      'embeddings',
      'rounds',
      'tool_connections',
      'oauth_states',
      'avatars',
      'user_identities',
      'exports',
      'export_volumes',
      'name',
    ]);
    expect(before.userIds).length(3);

    await ada.delete('/entity/org', 204);

    const left = () => remainsOfOrganization(own, ada.orgId, before.userIds);
    await until('nothing is left', async () => (await left()).length === 0).catch(async () =>
      expect(await left()).deep.equal([]),
    );
    expect((await auditEntries(own, ada.orgId)).map(({ action }) => action)).deep.equal([
      'organization.deleted',
      'organization.erased',
    ]);
    const { temporal } = own.container;
    expect(await untilClosed(own.container, erasureWorkflowId(ada.orgId))).equal('completed');
    const { byKind } = await temporal.client.workflow.getHandle(erasureWorkflowId(ada.orgId)).result();
    expect(byKind).include({ documents: 2, chats: 2, drafts: 2, agents: 2 });
    const [erased] = (await auditEntries(own, ada.orgId)).slice(-1);
    expect(erased?.detail).deep.equal(byKind);
  });
});
