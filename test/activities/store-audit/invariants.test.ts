import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import { alignmentStateAfterRound, initialAlignmentState } from '#src/domain/alignment/chat-state.ts';
import type { InvariantViolation } from '#src/modules/store-audit/invariants.ts';
import { registerSearchAttributes } from '#src/temporal/connection.ts';
import { aDraft, aFolder, aPublishedAgent, aStoredConnection, commitVersion, rootOf } from '#test/support/builders.ts';
import { addIndexedChunks } from '#test/support/indexed-documents.ts';
import { uploadFile } from '#test/support/ingestion-steps.ts';
import { startStack, useIdleStack } from '#test/support/stack.ts';
import { addChat, addRound } from '#test/support/stored-rows.ts';

describe('invariant checks', () => {
  const own = useIdleStack();
  before(() => registerSearchAttributes(own.container.temporal));
  afterEach(async () => {
    await own.db.raw(
      'truncate documents, document_totals, chats, log_totals, drafts, jobs, chunk_vectors, chunk_statistics, term_statistics cascade',
    );
    for (const blob of await own.container.blobs.list({ after: null, limit: 1_000 })) {
      await own.container.blobs.delete(blob.key);
    }
  });

  /** Without grace periods: no test leaves work in progress. */
  const check = (): Promise<InvariantViolation[]> =>
    own.container.invariants.check({ orphanSeconds: 0, reconcileSeconds: 0, dispatchSeconds: 0, erasureSeconds: 0 });
  const expectNone = async () => expect(await check()).deep.equal([]);
  /** @param violation the invariant and a part of its message */
  async function expectViolation(violation: string, documentId?: string): Promise<void> {
    const [invariant, detail = ''] = violation.split(/ (.*)/);
    const violations = await check();
    expect(violations.map((violation) => `${violation.invariant} ${violation.detail}`)).length(1);
    expect(violations[0]).include({ invariant, orgId: own.ada.orgId });
    expect(violations[0]?.detail).contain(detail);
    expect(violations[0]?.documentId).equal(documentId);
  }
  /** Updates the rows of a table with these columns. */
  const update = (table: string, columns: object, where: object = {}) => own.db(table).where(where).update(columns);

  /** Adds a readable document of two chunks, as an ingestion would. */
  async function addReadable(): Promise<{ documentId: string; chunkIds: string[] }> {
    const { documentId } = await uploadFile(own.ada, 'Some words.');
    const of = { orgId: own.ada.orgId, documentId, generation: 1 };
    const chunkIds = await addIndexedChunks(own.db, of, ['Some words.', 'Some words.']);
    const points = chunkIds.map((id) => ({ ...of, id, vector: Float32Array.of(1, 0) }));
    await createPgVectorStore(own.db).upsert({ orgId: own.ada.orgId, model: 'some-model', points });
    await update('documentGenerations', { chunksTotal: 2 }, { documentId });
    await update('documents', { activeGeneration: 1 }, { id: documentId });
    await update('jobs', { status: 'succeeded', finishedAt: own.db.fn.now() }, { documentId });
    return { documentId, chunkIds };
  }
  const addEmptyChat = async () => {
    const { orgId, userId: createdBy } = own.ada;
    return addChat(own.db, { orgId, createdBy, agentId: await aPublishedAgent(own.ada) });
  };
  /** Adds a chat with one scored round per score. */
  async function addScoredChat(scores: number[]): Promise<string> {
    const chatId = await addEmptyChat();
    let state = initialAlignmentState;
    for (const [index, userScore] of scores.entries()) {
      const measured = { user: userScore, agent: 0.8, neutral: false, refusal: false };
      state = alignmentStateAfterRound(state, measured, { offTopic: 3, onTopic: 2 });
      const { alignmentScore, ewma, shown: echoState } = state;
      const scored = { userScore, agentScore: 0.8, neutral: false, alignmentScore, ewma, echoState };
      const round = { orgId: own.ada.orgId, chatId, round: index + 1 };
      await addRound(own.db, round, { ...scored, scoredAt: own.db.fn.now(), foldState: JSON.stringify(state) });
    }
    return chatId;
  }

  it('find no violation in an intact installation', async () => {
    await addReadable();
    await addScoredChat([0.9, 0.1, 0.2]);
    await aDraft(own.ada);
    await expectNone();
  });

  type Fault = (of: Awaited<ReturnType<typeof addReadable>>) => unknown;
  /** Faults in the data of one readable document: the beginning of the violation, and what causes it. */
  const faultsOfDocument: Record<string, [violation: string, fault: Fault]> = {
    'a document without a job': ['I1 has no job', () => own.db('jobs').delete()],
    'a failed job without an error': [
      'I1 failed without a reason',
      () => update('jobs', { status: 'failed', finishedAt: own.db.fn.now() }),
    ],
    'a successful ingestion whose chunks are not the active ones': [
      'I1 succeeded but is not the active one',
      () => update('documents', { activeGeneration: null }),
    ],
    'a missing chunk': [
      'I2 1 of 2 chunks are stored, with indices 1 to 1',
      async ({ chunkIds: [id] }) => {
        await own.db('chunks').where({ id }).delete();
        await update('chunkStatistics', { chunkCount: 1, termCount: 1 });
        await own.db('chunkVectors').where({ chunkId: id }).delete();
      },
    ],
    'a chunk without a vector': [
      'I2 has no vector',
      ({ chunkIds: [chunkId] }) => update('chunkVectors', { chunkId: uuidv7() }, { chunkId }),
    ],
    'a document whose original file is missing': [
      'I4 missing_blob',
      async () => own.container.blobs.delete((await own.db('documents').first('blobKey')).blobKey),
    ],
    'a job that never started': [
      'I11 never started',
      () => update('jobs', { status: 'queued', finishedAt: null, dispatchedAt: null }),
    ],
    'a document with other access keys than its folder': [
      'I15 The access keys of the document are not those',
      () => update('documents', { acl: [`user:${own.ada.userId}`, `org:${own.ada.orgId}`] }),
    ],
    'a document in no folder': ['I15 in no folder', () => own.db('folderLinks').delete()],
    'a document with a sort time other than its last change': [
      'I16 a time other than its last change',
      () => update('folderLinks', { listedAt: null }),
    ],
  };
  /** The same for violations that name only the organization. */
  const faultsOfOrganization: Record<string, [violation: string, fault: Fault]> = {
    'a wrong number of chunks that contain a word': [
      'I2 The chunk counts of 1 terms are wrong',
      () => update('termStatistics', { chunkCount: 3 }),
    ],
    'a wrong number of chunks of the organization': [
      'I2 count 5 chunks with 2 terms, but 2 chunks with 2 terms are stored',
      () => update('chunkStatistics', { chunkCount: 5 }),
    ],
    'missing totals of documents': ['I16 1 document totals', () => own.db('documentTotals').delete()],
    'a wrong number of documents in the totals': [
      'I16 document totals (per author and access keys)',
      () => update('documentTotals', { documents: 2 }),
    ],
    'a wrong size of documents in the totals': [
      'I16 totals (per author and access keys) are wrong',
      () => update('documentTotals', { sizeBytes: 1 }),
    ],
  };
  for (const faults of [faultsOfDocument, faultsOfOrganization]) {
    for (const [what, [violation, fault]] of Object.entries(faults)) {
      it(`report ${what} (${violation.split(' ')[0]})`, async () => {
        const readable = await addReadable();
        await fault(readable);
        await expectViolation(violation, faults === faultsOfDocument ? readable.documentId : undefined);
      });
    }
  }

  it('report an open job whose workflow run was terminated (I1), and fail if Temporal cannot be reached', async () => {
    const { documentId } = await uploadFile(own.ada, 'Some words.');
    await expectNone();
    await own.container.temporal.client.workflow.getHandle(`ingest-${documentId}-1`).terminate();
    await expectViolation('I1 has no open workflow run', documentId);
    const unreachable = { TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_CALL_TIMEOUT_MS: '2000' };
    const cut = await startStack({ ...own.settings, ...unreachable }, { workers: false });
    const failure = await cut.container.invariants.check({ reconcileSeconds: 0 }).catch((error: unknown) => error);
    await cut.close();
    expect(failure).instanceOf(Error);
  });

  /** Faults of a chat of three scored rounds. */
  const faultsOfChat: Record<string, [violation: string, columns: object | null, round: number]> = {
    'a complete round without a reply': [
      'I5 the counter is 3; 1 complete rounds have no reply',
      { assistantReply: null },
      3,
    ],
    'a missing round of a chat': ['I5 2 rounds, the highest number is 2 and the counter is 3', null, 3],
    'a round with a wrong score': ['I6 round 1', { userScore: 0.3 }, 1],
    'a round with a wrong moving average of scores': ['I6 round 2', { ewma: 50 }, 2],
    'a round with a wrong alignment state': ['I6 round 3', { echoState: 'drift_user' }, 3],
  };
  for (const [what, [violation, columns, round]] of Object.entries(faultsOfChat)) {
    it(`report ${what} (${violation.split(' ')[0]})`, async () => {
      const rounds = own.db('rounds').where({ chatId: await addScoredChat([0.9, 0.9, 0.9]), round });
      await (columns === null ? rounds.delete() : rounds.update(columns));
      await expectViolation(violation);
    });
  }

  it('report a draft whose next version number is taken, whose head is not its last version, or with two first versions (I8)', async () => {
    const draft = await aDraft(own.ada);
    await commitVersion(own.ada, draft.id, { parent_version_id: draft.head_version_id });
    await expectNone();
    await update('drafts', { nextVersionNumber: 2 });
    await expectViolation('I8 the next version number is taken');
    await update('drafts', { nextVersionNumber: 3, headVersionId: draft.head_version_id });
    await expectViolation('I8 the head is not the end of the chain');
    await update('draftVersions', { parentVersionId: null });
    await expectViolation('I8 2 versions have no parent');
  });

  it('report a running job that is unchanged for days, unless it waits for its date or was just retried (I11)', async () => {
    const { documentId } = await addReadable();
    const longAgo = own.db.raw("now() - interval '3 days'");
    await update('jobs', { status: 'running', finishedAt: null, dispatchedAt: longAgo, updatedAt: longAgo });
    await expectViolation('I11 unchanged for over 48 hours', documentId);
    for (const columns of [{ stage: 'wait' }, { stage: null, updatedAt: own.db.fn.now() }]) {
      await update('jobs', columns);
      expect(await own.container.invariants.check()).deep.equal([]);
    }
  });

  it('report each kind of data that remains of a deleted user or organization (I13)', async () => {
    const { db } = own;
    const { userId, orgId, ...eve } = await own.signUp('Eve');
    await eve.upload('/documents', { name: 'note.txt', content: 'Some words.' }, 201);
    const detailsOf = (violations: InvariantViolation[]) =>
      violations.filter(({ invariant }) => invariant === 'I13').map(({ detail }) => detail);
    const gone = { deletedAt: db.fn.now(), eraseDueAt: db.raw("now() - interval '1 hour'") };
    const updateUser = (columns: object) => update('users', columns, { id: userId });
    const updateOrganization = (columns: object) => update('organizations', columns, { id: orgId });
    const avatar = { orgId, userId, content: Buffer.from('x'), sha256: 'x' };
    const identity = { issuer: 'https://id.example', subject: 'eve', userId };
    /** What is left of the user or the organization, in the order in which it is taken away. */
    const remains: [expected: string, add: () => unknown, takeAway: () => unknown][] = [
      ['an email address', () => updateUser(gone), () => updateUser({ email: '' })],
      ['documents', () => undefined, () => db('documents').where({ createdBy: userId }).delete()],
      ['folders', () => undefined, () => db('folders').where({ ownerId: userId }).delete()],
      ['an avatar', () => db('avatars').insert(avatar), () => db('avatars').delete()],
      ['a sign-in identity', () => db('userIdentities').insert(identity), () => db('userIdentities').delete()],
      ['a picture', () => updateUser({ avatarUrl: 'https://id.example/eve' }), () => updateUser({ avatarUrl: null })],
      ['a name', () => updateOrganization(gone), () => updateOrganization({ name: '' })],
      ['members', () => undefined, () => db('memberships').where({ orgId }).delete()],
    ];
    for (const [expected, add, takeAway] of remains) {
      await add();
      const who = ['a name', 'members'].includes(expected) ? 'The deleted organization' : `Deleted user ${userId}`;
      expect(detailsOf(await check())).deep.equal([`${who} still has ${expected}.`]);
      // By default an erasure may be a day late.
      expect(detailsOf(await own.container.invariants.check())).deep.equal([]);
      await takeAway();
    }
    expect(detailsOf(await check())).deep.equal([]);
  });

  it('report an organization with members whose only admin was demoted or disabled (I14)', async () => {
    const { userId } = own.ada;
    for (const [table, where, broken, intact] of [
      ['memberships', { userId }, { isOrgAdmin: false }, { isOrgAdmin: true }],
      ['users', { id: userId }, { disabledAt: new Date() }, { disabledAt: null }],
    ] as const) {
      await update(table, broken, where);
      await expectViolation('I14 no enabled admin');
      await update(table, intact, where);
    }
  });

  it('report a folder that is its own ancestor, or has other access keys than its root (I15)', async () => {
    const { id: one } = await aFolder(own.ada, await rootOf(own.ada, 'org_root'));
    const { id: two } = await aFolder(own.ada, one);
    await expectNone();
    await update('folders', { acl: [`user:${own.ada.userId}`] }, { id: two });
    await expectViolation(`I15 Folder ${two} has other access keys`);
    await update('folders', { acl: [`org:${own.ada.orgId}`] }, { id: two });
    await update('folders', { parentId: two }, { id: one });
    const cycle = [one, two].map((id) => `Folder ${id} is its own ancestor.`);
    expect((await check()).map(({ detail }) => detail)).to.have.members(cycle);
    await own.db('folders').whereIn('id', [one, two]).delete();
  });

  it('report wrong entries, totals and search words of the chat logs (I17)', async () => {
    const { db } = own;
    const { orgId } = own.ada;
    const chatId = await addEmptyChat();
    await addRound(db, { orgId, chatId, round: 1 });
    await expectNone();
    const firstTexts = db('logTexts').where({ chatId, round: 1 });
    const logs = 'select renew_chat_logs()';
    const texts = 'call renew_log_texts()';
    const moreWords = { words: db.raw("words || array_to_tsvector('{secret}')") };
    for (const [detail, fault, repair] of [
      ['1 totals of chat logs', update('logTotals', { driftRounds: 1 }, { span: 'day' }), logs],
      ['The log of chat', update('chatLogs', { costUsd: 1 }), logs],
      ['The search words of chat', firstTexts.clone().delete(), texts],
      ['The search words of chat', firstTexts.clone().update(moreWords), texts],
      ['The search words of chat', db('logTexts').insert({ orgId, chatId, round: 7, words: db.raw("''") }), texts],
    ] as const) {
      await fault;
      await expectViolation(`I17 ${detail}`);
      await db.raw(repair);
      await expectNone();
    }
  });

  it('report an import with a wrong count of files, and a document that belongs to two files (I18)', async () => {
    const { orgId } = own.ada;
    const connectionId = await aStoredConnection(own, own.ada, 'Reports');
    const run = { id: uuidv7(), orgId, connectionId, kind: 'import', jobId: 'import-1', status: 'succeeded', total: 2 };
    await own.db('importRuns').insert({ ...run, added: 1, failed: 1 });
    await expectNone();
    await update('importRuns', { failed: 0 });
    await expectViolation('I18 counts another number of files');
    await own.db('importRuns').delete();

    const { documentId } = await uploadFile(own.ada, 'Note.', { ingest: 'false' });
    const { contentSha256 } = await own.db('documents').where({ id: documentId }).first();
    const { folderId } = await own.db('folderLinks').where({ documentId }).first();
    const file = { revision: '1', name: 'a', path: 'a', contentSha256, localPath: [] };
    for (const remoteId of ['one', 'two']) {
      await own.db('connectorDocuments').insert({ orgId, connectionId, folderId, documentId, remoteId, ...file });
    }
    await expectViolation('I18 belongs to two files', documentId);
    await own.db('connections').where({ id: connectionId }).delete();
  });
});
