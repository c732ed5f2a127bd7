import { expect } from 'chai';
import type { Knex } from 'knex';
import { createErasureActivities, type ErasureActivities } from '#activities/erasure.ts';
import type {
  EraseRowsInput,
  EraseSliceInput,
  EraseSliceResult,
  ErasureSubject,
  SqlOnlyErasureStage,
} from '#src/contracts/deletion.ts';
import { deletionWorkflowId, erasureWorkflowId } from '#src/contracts/workflow-ids.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { runActivity } from '#test/support/activity-environment.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { aColleague, aDocumentIn, aFolder, aPublishedAgent, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { membersAndRemains, remainsOfOrganization } from '#test/support/remaining-content.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { storeEvaluation } from '#test/support/stored-evaluation.ts';
import { until } from '#test/support/until.ts';

const rows: SqlOnlyErasureStage[] = ['chats', 'drafts', 'agents', 'folders', 'traces'];

describe('erasure activities', () => {
  let own: Stack;
  let db: Knex;
  let ada: Member;
  let grace: Member;
  let erasure: ErasureActivities;

  before(async () => {
    // Workers would run the steps too.
    own = await startStack({}, { workers: false });
    db = own.container.db;
    erasure = createErasureActivities(own.container);
  });
  after(() => own.close());
  beforeEach(async () => {
    ada = await own.signUp();
    grace = await aColleague(own, ada);
  });

  const eraseDocuments = (of: ErasureSubject) =>
    runActivity<EraseSliceInput, EraseSliceResult>(erasure.eraseDocuments, { ...of, erased: 0 });
  const eraseRows = (of: ErasureSubject, what: SqlOnlyErasureStage) =>
    runActivity<EraseRowsInput, EraseSliceResult>(erasure.eraseRows, { ...of, what, erased: 0 });
  const forget = (of: ErasureSubject) => runActivity<ErasureSubject, { isMore: boolean }>(erasure.forgetLeaver, of);
  const stopWork = (of: ErasureSubject) => runActivity<ErasureSubject, void>(erasure.stopWork, of);

  async function paste(member: Member): Promise<string> {
    const text = { name: 'note', content: 'Some words.', source_format: 'text' };
    return fullDocumentSchema.parse((await member.post('/documents/paste', text, 201)).body).id;
  }

  const jobOf = (id: string) => db('jobs').where({ id }).first();
  const jobOfDeletion = (documentId: string) => jobOf(deletionWorkflowId(documentId));
  const twice = <Result>(step: () => Promise<Result>) => Promise.all([step(), step()]);

  /** Replaces the deletion workers. */
  async function takeAway(documentId: string): Promise<void> {
    const { deletion } = own.container;
    const of = { orgId: ada.orgId, documentId };
    await until('the deletion is requested', () => jobOfDeletion(documentId));
    await deletion.deleteOriginal(of);
    await deletion.forgetDocument(of);
    await deletion.recordDeletion(of);
  }

  it('erase the personal content of a user when each runs twice at the same time', async () => {
    const of = { orgId: ada.orgId, userId: grace.userId };
    const documentId = await paste(grace);
    await aPublishedAgent(grace);
    await storeEvaluation(db, grace);
    await ada.delete(`/entity/members/${grace.userId}`, 204);
    await twice(() => stopWork(of));
    expect(await jobOf(`ingest-${documentId}-1`)).include({ status: 'cancelled' });
    expect(await jobOf(erasureWorkflowId(grace.userId))).include({ stage: 'wait', status: 'running' });
    const [results] = await Promise.all([twice(() => eraseDocuments(of)), takeAway(documentId)]);
    for (const { isMore } of results) expect(isMore).equal(false);
    for (const what of rows) await twice(() => eraseRows(of, what));
    expect(await twice(() => forget(of))).deep.equal([{ isMore: false }, { isMore: false }]);
    for (const table of ['documents', 'drafts', 'agents', 'folders'] as const) {
      expect(await db(table).where({ createdBy: grace.userId }), table).deep.equal([]);
    }
    for (const table of ['evaluationRuns', 'evaluationUnits', 'judgements']) {
      expect(await db(table).where({ orgId: ada.orgId }), table).deep.equal([]);
    }
    expect(await db('users').where({ id: grace.userId }).first()).include({ email: '', displayName: 'Grace' });
    const erased = await db('auditLog').where({ target: grace.userId, action: 'account.erased' });
    expect(erased).length(1);
  });

  it('erase an organization when each runs twice at the same time', async () => {
    const of = { orgId: ada.orgId, userId: null };
    const documentIds = [await paste(ada), await paste(grace)];
    await aPublishedAgent(grace, { visibility: 'org_level' });
    for (const member of [ada, grace]) await storeEvaluation(db, member);
    const { userIds } = await membersAndRemains(own, ada.orgId);
    await ada.delete('/entity/org', 204);
    await twice(() => stopWork(of));
    await Promise.all([twice(() => eraseDocuments(of)), ...documentIds.map(takeAway)]);
    for (const what of rows) await twice(() => eraseRows(of, what));
    await twice(() => forget(of));
    expect(await remainsOfOrganization(own, ada.orgId, userIds)).deep.equal([]);
  });

  it('keep content of other users: documents return to their creators, shared folders stay', async () => {
    const of = { orgId: ada.orgId, userId: grace.userId };
    await ada.patch(`/entity/members/${grace.userId}/org-admin`, { is_org_admin: true }, 200);
    const [shared, ofGrace] = [await rootOf(ada, 'org_root'), await rootOf(grace, 'personal_root')];
    const [staying, taken] = [await aFolder(grace, shared), await aFolder(ada, shared)];
    const below = await aFolder(ada, taken.id);
    const [alone, both] = [await aDocumentIn(ada, below.id), await aDocumentIn(ada, below.id)];
    await grace.post(`/documents/${both}/links`, { folder_id: staying.id }, 201);
    await grace.patch(`/folders/${taken.id}`, { parent_id: ofGrace }, 200);
    await ada.delete(`/entity/members/${grace.userId}`, 204);
    await stopWork(of);
    await eraseDocuments(of);
    await twice(() => eraseRows(of, 'folders'));
    expect(await forget(of)).deep.equal({ isMore: false });
    const placesOf = async (id: string) => {
      const { acl } = await db('documents').where({ id }).first('acl');
      const folderIds = await db('folderLinks').where({ documentId: id }).pluck('folder_id');
      return { acl, folderIds };
    };
    const own = `user:${ada.userId}`;
    expect(await placesOf(alone)).deep.equal({ acl: [own], folderIds: [await rootOf(ada, 'personal_root')] });
    expect(await placesOf(both)).deep.equal({ acl: [own, `org:${ada.orgId}`], folderIds: [staying.id] });
    expect(await db('folders').whereIn('id', [staying.id, taken.id, below.id]).pluck('id')).deep.equal([staying.id]);
  });

  it('keep the user if new content was stored in the meantime', async () => {
    const of = { orgId: ada.orgId, userId: grace.userId };
    await paste(grace);
    await ada.delete(`/entity/members/${grace.userId}`, 204);
    expect(await forget(of)).deep.equal({ isMore: true });
    expect(await db('users').where({ id: grace.userId }).first()).include({ email: grace.email });
  });

  it('retry a failed deletion once, then throw erasure_incomplete', async () => {
    const of = { orgId: ada.orgId, userId: grace.userId };
    const documentId = await paste(grace);
    await ada.delete(`/entity/members/${grace.userId}`, 204);
    const erasing = appErrorCode(eraseDocuments(of));
    for (const attempt of [1, 2]) {
      await until('the deletion is requested', async () => (await jobOfDeletion(documentId))?.attempt === attempt);
      const error = { code: 'blob_missing', message: 'It is gone.' };
      await own.container.deletion.recordFailure({ orgId: ada.orgId, documentId, error, attempt });
    }
    expect(await erasing).equal('erasure_incomplete');
    // Org admins can read the job.
    expect((await ada.get(`/jobs/${deletionWorkflowId(documentId)}`, 200)).body).include({ status: 'failed' });
    await ada.post(`/jobs/${deletionWorkflowId(documentId)}/retry`, {}, 202);
  });
});
