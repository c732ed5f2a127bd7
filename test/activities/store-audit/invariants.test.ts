import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import { alignmentStateAfterRound, initialAlignmentState } from '#src/domain/alignment/chat-state.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { draftDetailSchema } from '#src/modules/drafts/drafts.schema.ts';
import type { InvariantViolation } from '#src/modules/store-audit/invariants.ts';
import { registerSearchAttributes } from '#src/temporal/connection.ts';
import { aPublishedAgent, aStoredConnection } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { addIndexedChunks } from '#test/support/indexed-documents.ts';
import { addChat as addLoggedChat, addRound } from '#test/support/logged-chats.ts';
import { putBlob } from '#test/support/put-blob.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('invariant checks', () => {
  let own: Stack;
  let ada: Member;
  let db: Knex;

  before(async () => {
    // Without workers, so that only the tests change data.
    own = await startStack({}, { workers: false });
    await registerSearchAttributes(own.container.temporal);
    ada = await own.signUp();
    db = own.container.db;
  });
  after(() => own.close());
  afterEach(async () => {
    await db.raw(
      'truncate documents, document_totals, chats, log_totals, drafts, jobs, chunk_vectors, chunk_statistics, term_statistics cascade',
    );
    for (const blob of await own.container.blobs.list({ after: null, limit: 1_000 })) {
      await own.container.blobs.delete(blob.key);
    }
  });

  /** Without grace periods: no test leaves work in progress. */
  const check = (): Promise<InvariantViolation[]> =>
    own.container.invariants.check({ orphanSeconds: 0, reconcileSeconds: 0, dispatchSeconds: 0, erasureSeconds: 0 });

  async function expectViolation(invariant: string, detail: RegExp, documentId?: string): Promise<void> {
    const violations = await check();
    expect(violations.map((violation) => `${violation.invariant} ${violation.detail}`)).length(1);
    expect(violations[0]).include({ invariant, orgId: ada.orgId });
    expect(violations[0]?.detail).match(detail);
    expect(violations[0]?.documentId).equal(documentId);
  }

  async function upload(): Promise<string> {
    const { body } = await ada.upload('/documents', { name: 'note.txt', content: 'Some words.' }, 201);
    return fullDocumentSchema.parse(body).id;
  }

  /** Adds a readable document of two chunks, as an ingestion would. */
  async function addReadable(): Promise<{ documentId: string; chunkIds: string[] }> {
    const documentId = await upload();
    const of = { orgId: ada.orgId, documentId, generation: 1 };
    const chunkIds = await addIndexedChunks(db, of, ['Some words.', 'Some words.']);
    const points = chunkIds.map((id) => ({ ...of, id, vector: Float32Array.of(1, 0) }));
    await createPgVectorStore(db).upsert({ orgId: ada.orgId, model: 'some-model', points });
    await db('documentGenerations').where({ documentId }).update({ chunksTotal: 2 });
    await db('documents').where({ id: documentId }).update({ activeGeneration: 1 });
    await db('jobs').where({ documentId }).update({ status: 'succeeded', finishedAt: db.fn.now() });
    return { documentId, chunkIds };
  }

  it('find no violation in an intact installation', async () => {
    await addReadable();
    await addChat([0.9, 0.1, 0.2]);
    await ada.post('/agent-drafts', { agent_name: 'Loans' }, 201);
    expect(await check()).deep.equal([]);
  });

  describe('I1: uploads reach an end', () => {
    it('reports a document without a job', async () => {
      const documentId = await upload();
      await db('jobs').delete();
      await expectViolation('I1', /has no job/, documentId);
    });

    it('reports a failed job without an error code', async () => {
      const documentId = await upload();
      await db('jobs').update({ status: 'failed', finishedAt: db.fn.now() });
      await expectViolation('I1', /failed without a reason/, documentId);
    });

    it('reports a succeeded generation that is not active', async () => {
      const { documentId } = await addReadable();
      await db('documents').update({ activeGeneration: null });
      await expectViolation('I1', /succeeded but is not the active one/, documentId);
    });

    it('reports an open job whose workflow run was terminated', async () => {
      const documentId = await upload();
      expect(await check()).deep.equal([]);
      await own.container.temporal.client.workflow.getHandle(`ingest-${documentId}-1`).terminate();
      await expectViolation('I1', /has no open workflow run/, documentId);
    });
  });

  describe('I2: chunks match vectors and BM25 statistics', () => {
    it('reports a missing chunk', async () => {
      const { documentId, chunkIds } = await addReadable();
      await db('chunks').where({ id: chunkIds[0] }).delete();
      await db('chunkStatistics').update({ chunkCount: 1, termCount: 1 });
      await db('chunkVectors').where({ chunkId: chunkIds[0] }).delete();
      await expectViolation('I2', /1 of 2 chunks are stored, with indices 1 to 1/, documentId);
    });

    it('reports wrong BM25 statistics', async () => {
      await addReadable();
      await db('termStatistics').where({ term: 'word' }).update({ chunkCount: 3 });
      await expectViolation('I2', /The chunk counts of 1 terms are wrong/);
      await db('termStatistics').where({ term: 'word' }).update({ chunkCount: 2 });
      await db('chunkStatistics').update({ chunkCount: 5 });
      await expectViolation('I2', /count 5 chunks with 2 terms, but 2 chunks with 2 terms are stored/);
    });

    it('reports a chunk whose vector was replaced by one with another id', async () => {
      const { documentId, chunkIds } = await addReadable();
      await db('chunkVectors').where({ chunkId: chunkIds[1] }).update({ chunkId: uuidv7() });
      await expectViolation('I2', new RegExp(`Chunk ${chunkIds[1]} has no vector`), documentId);
    });
  });

  it('I4 reports an original without a document', async () => {
    const key = `${ada.orgId}/${uuidv7()}`;
    await putBlob(own.container.blobs, key, 'left');
    await expectViolation('I4', new RegExp(`orphan_blob ${key}: No document refers to these 4 bytes`));
  });

  it('I4 reports a document without its original', async () => {
    const { documentId } = await addReadable();
    await own.container.blobs.delete((await db('documents').first('blobKey')).blobKey);
    await expectViolation('I4', /missing_blob/, documentId);
  });

  /** Adds a chat with one scored round per score. */
  async function addChat(scores: number[]): Promise<string> {
    const agentId = await aPublishedAgent(ada);
    const of = { orgId: ada.orgId, createdBy: ada.userId, acl: [`user:${ada.userId}`], visibility: 'personal' };
    const chatId = uuidv7();
    await db('chats').insert({
      ...of,
      ...{ id: chatId, agentId, title: 'Loans', titleSource: 'user', roundCount: scores.length },
      ...{ ragEnabled: false, ragReranking: false, ragRerankingType: 'llm' },
    });
    let state = initialAlignmentState;
    for (const [index, user] of scores.entries()) {
      const measured = { user, agent: 0.8, neutral: false, refusal: false };
      state = alignmentStateAfterRound(state, measured, { offTopic: 3, onTopic: 2 });
      await db('rounds').insert({
        ...{ orgId: ada.orgId, chatId, round: index + 1, status: 'complete', model: 'extractive-1' },
        ...{ userContent: 'What is a loan?', assistantReply: 'Money.', scoredAt: db.fn.now() },
        ...{ userScore: user, agentScore: 0.8, neutral: false, refusalKind: null },
        ...{ alignmentScore: state.alignmentScore, ewma: state.ewma, echoState: state.shown },
        foldState: JSON.stringify(state),
      });
    }
    return chatId;
  }

  it('I5 reports a missing round, and a complete round without a reply', async () => {
    const chatId = await addChat([0.9, 0.9, 0.9]);
    await db('rounds').where({ chatId, round: 3 }).update({ assistantReply: null });
    await expectViolation(
      'I5',
      /3 rounds, the highest number is 3 and the counter is 3; 1 complete rounds have no reply/,
    );
    await db('rounds').where({ chatId, round: 3 }).delete();
    await expectViolation('I5', /2 rounds, the highest number is 2 and the counter is 3/);
  });

  it('I6 reports a changed score, trend or state', async () => {
    for (const [column, value] of [
      ['userScore', 0.3],
      ['ewma', 50],
      ['echoState', 'drift_user'],
    ] as const) {
      const chatId = await addChat([0.9, 0.9, 0.9]);
      await db('rounds')
        .where({ chatId, round: 2 })
        .update({ [column]: value });
      await expectViolation('I6', /round 2/);
      await db('chats').where({ id: chatId }).delete();
    }
  });

  it('I8 reports a version number that will be used twice, versions after the head, and a second root', async () => {
    const draft = draftDetailSchema.parse((await ada.post('/agent-drafts', { agent_name: 'Loans' }, 201)).body);
    const path = `/agent-drafts/${draft.id}/versions`;
    await ada.post(path, { parent_version_id: draft.head_version_id }, 201);
    expect(await check()).deep.equal([]);

    await db('drafts').update({ nextVersionNumber: 2 });
    await expectViolation('I8', /the next version number is taken/);
    await db('drafts').update({ nextVersionNumber: 3, headVersionId: draft.head_version_id });
    await expectViolation('I8', /the head is not the end of the chain/);
    await db('draftVersions').update({ parentVersionId: null });
    await expectViolation('I8', /2 versions have no parent/);
  });

  it('I11 reports a job that was never started, and a running job that is unchanged for days', async () => {
    const { documentId } = await addReadable();
    await db('jobs').update({ status: 'queued', finishedAt: null, dispatchedAt: null });
    await expectViolation('I11', /never started/, documentId);
    const longAgo = db.raw("now() - interval '3 days'");
    await db('jobs').update({ status: 'running', dispatchedAt: longAgo, updatedAt: longAgo });
    await expectViolation('I11', /unchanged for over 48 hours/, documentId);
    // An erasure that waits for its date.
    await db('jobs').update({ stage: 'wait' });
    expect(await own.container.invariants.check()).deep.equal([]);
    // A parked run that an operator has just retried.
    await db('jobs').update({ stage: null, updatedAt: db.fn.now() });
    expect(await own.container.invariants.check()).deep.equal([]);
  });

  it('I13 reports each kind of data that a deleted user or organization still has', async () => {
    const eve = await own.signUp('Eve');
    const { body } = await eve.upload('/documents', { name: 'note.txt', content: 'Some words.' }, 201);
    const documentId = fullDocumentSchema.parse(body).id;
    const ofIt = (violations: InvariantViolation[]) =>
      violations.filter(({ invariant }) => invariant === 'I13').map(({ detail }) => detail);
    const details = async () => ofIt(await check());
    const gone = { deletedAt: db.fn.now(), eraseDueAt: db.raw("now() - interval '1 hour'") };
    await db('users').where({ id: eve.userId }).update(gone);
    expect(await details()).deep.equal([`Deleted user ${eve.userId} still has an email address.`]);
    // By default an erasure may be a day late.
    expect(ofIt(await own.container.invariants.check())).deep.equal([]);
    await db('users').where({ id: eve.userId }).update({ email: '' });
    expect(await details()).deep.equal([`Deleted user ${eve.userId} still has documents.`]);
    await db('documents').where({ id: documentId }).delete();
    expect(await details()).deep.equal([`Deleted user ${eve.userId} still has folders.`]);
    await db('folders').where({ ownerId: eve.userId }).delete();
    expect(await details()).deep.equal([]);
    await db('avatars').insert({ orgId: eve.orgId, userId: eve.userId, content: Buffer.from('x'), sha256: 'x' });
    expect(await details()).deep.equal([`Deleted user ${eve.userId} still has an avatar.`]);
    await db('avatars').delete();
    await db('userIdentities').insert({ issuer: 'https://id.example', subject: 'eve', userId: eve.userId });
    expect(await details()).deep.equal([`Deleted user ${eve.userId} still has a sign-in identity.`]);
    await db('userIdentities').delete();
    await db('users').where({ id: eve.userId }).update({ avatarUrl: 'https://id.example/eve' });
    expect(await details()).deep.equal([`Deleted user ${eve.userId} still has a picture.`]);
    await db('users').where({ id: eve.userId }).update({ avatarUrl: null });
    await db('organizations').where({ id: eve.orgId }).update(gone);
    expect(await details()).deep.equal(['The deleted organization still has a name.']);
    await db('organizations').where({ id: eve.orgId }).update({ name: '' });
    expect(await details()).deep.equal(['The deleted organization still has members.']);
    await db('memberships').where({ orgId: eve.orgId }).delete();
    expect(await details()).deep.equal([]);
  });

  it('I14 reports an organization with members whose only admin was demoted or disabled', async () => {
    const admin = (columns: object) => db('memberships').where({ userId: ada.userId }).update(columns);
    await admin({ isOrgAdmin: false });
    await expectViolation('I14', /no enabled admin/);
    await admin({ isOrgAdmin: true });
    const user = (disabledAt: Date | null) => db('users').where({ id: ada.userId }).update({ disabledAt });
    await user(new Date());
    await expectViolation('I14', /no enabled admin/);
    await user(null);
  });

  it('I16 reports wrong totals of documents, and a wrong sort time in a folder', async () => {
    const { documentId } = await addReadable();
    await db('documentTotals').update({ documents: 2 });
    await expectViolation('I16', /^1 document totals/);
    await db('documentTotals').update({ documents: 1, sizeBytes: 1 });
    await expectViolation('I16', /^1 document totals/);
    await db('documentTotals').delete();
    await expectViolation('I16', /^1 document totals/);
    await db('documents').update({ deletedAt: new Date() });
    await db('documentTotals').delete();
    await db('documents').update({ deletedAt: null });
    expect(await check()).deep.equal([]);
    await db('folderLinks').update({ listedAt: null });
    await expectViolation('I16', /a time other than its last change/, documentId);
  });

  it('I17 reports wrong chat logs, wrong totals and wrong search words', async () => {
    const by = { orgId: ada.orgId, createdBy: ada.userId, agentId: await aPublishedAgent(ada) };
    const chatId = await addLoggedChat(db, by);
    await addRound(db, { orgId: ada.orgId, chatId, round: 1 });
    expect(await check()).deep.equal([]);
    await db('logTotals').where({ span: 'day' }).update({ driftRounds: 1 });
    await expectViolation('I17', /^1 totals of chat logs/);
    await db('logTotals').where({ span: 'day' }).update({ driftRounds: 0 });
    await db('chatLogs').update({ costUsd: 1 });
    await expectViolation('I17', /^The log of chat/);
    await db.raw('select renew_chat_logs()');
    const renew = () => db.raw('call renew_log_texts()');
    const words = db('logTexts').where({ chatId, round: 1 });
    await words.clone().delete();
    await expectViolation('I17', /^The search words of chat/);
    await renew();
    await words.clone().update({ words: db.raw("words || array_to_tsvector('{secret}')") });
    await expectViolation('I17', /^The search words of chat/);
    await renew();
    await db('logTexts').insert({ orgId: ada.orgId, chatId, round: 7, words: db.raw("''") });
    await expectViolation('I17', /^The search words of chat/);
    await renew();
    expect(await check()).deep.equal([]);
  });

  it('I15 reports a document without a folder, or with other access keys than its folders', async () => {
    const { documentId } = await addReadable();
    await db('documents').update({ acl: [`user:${ada.userId}`, `org:${ada.orgId}`] });
    await expectViolation('I15', /The access keys of the document are not those/, documentId);
    await db('documents').update({ acl: [`user:${ada.userId}`] });
    await db('folderLinks').delete();
    await expectViolation('I15', /in no folder/, documentId);
  });

  it('I15 reports a folder that is its own ancestor, or has other access keys than its root', async () => {
    const { id: rootId, ...root } = await db('folders').where({ orgId: ada.orgId, systemRole: 'org_root' }).first();
    const [one, two] = [uuidv7(), uuidv7()];
    const folder = { ...root, kind: 'user', systemRole: null };
    await db('folders').insert([
      { ...folder, id: one, parentId: rootId, name: 'One' },
      { ...folder, id: two, parentId: one, name: 'Two' },
    ]);
    expect(await check()).deep.equal([]);
    await db('folders')
      .where({ id: two })
      .update({ acl: [`user:${ada.userId}`] });
    await expectViolation('I15', new RegExp(`Folder ${two} has other access keys`));
    await db('folders').where({ id: two }).update({ acl: root.acl });
    await db('folders').where({ id: one }).update({ parentId: two });
    expect((await check()).map(({ detail }) => detail)).to.have.members([
      `Folder ${one} is its own ancestor.`,
      `Folder ${two} is its own ancestor.`,
    ]);
    await db('folders').whereIn('id', [one, two]).delete();
  });

  it('I18 reports a run with a wrong count of files, and a document that belongs to two files', async () => {
    const { orgId } = ada;
    const connectionId = await aStoredConnection(own, ada, 'Reports');
    const run = { id: uuidv7(), orgId, connectionId, kind: 'import', jobId: 'import-1', status: 'succeeded', total: 2 };
    await db('importRuns').insert({ ...run, added: 1, failed: 1 });
    expect(await check()).deep.equal([]);
    await db('importRuns').update({ failed: 0 });
    await expectViolation('I18', /counts another number of files/);
    await db('importRuns').delete();

    await ada.upload('/documents', { name: 'note.txt', content: 'Note.' }, 201, { fields: { ingest: 'false' } });
    const document = await db('documents').where({ orgId }).first();
    const { folderId } = await db('folderLinks').where({ documentId: document.id }).first();
    const known = {
      ...{ orgId, connectionId, folderId },
      documentId: document.id,
      revision: '1',
      name: 'a',
      path: 'a',
    };
    for (const remoteId of ['one', 'two']) {
      await db('connectorDocuments').insert({
        ...known,
        remoteId,
        contentSha256: document.contentSha256,
        localPath: [],
      });
    }
    await expectViolation('I18', /belongs to two files/, document.id);
    await db('connections').where({ id: connectionId }).delete();
  });

  it('fail with the error when they cannot be checked', async () => {
    const cut = await startStack(
      { TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_CALL_TIMEOUT_MS: '2000' },
      { workers: false },
    );
    try {
      const member = await cut.signUp();
      await member.upload('/documents', { name: 'note.txt', content: 'Some words.' }, 201);
      await cut.container.db('jobs').update({ dispatchedAt: db.fn.now() });
      const error: unknown = await cut.container.invariants.check({ reconcileSeconds: 0 }).catch((fault) => fault);
      expect(error).instanceOf(Error);
    } finally {
      await cut.close();
    }
  });
});
