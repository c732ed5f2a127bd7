import { expect } from 'chai';
import { createErasureActivities, type ErasureActivities } from '#activities/erasure.ts';
import type { SqlOnlyErasureStage } from '#src/contracts/deletion.ts';
import { deletionWorkflowId, erasureWorkflowId } from '#src/contracts/workflow-ids.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { aColleague, aDocumentIn, aFolder, anUpload, aPublishedAgent, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { runActivity } from '#test/support/ingestion-steps.ts';
import { useIdleStack } from '#test/support/stack.ts';
import { storeEvaluation } from '#test/support/stored-rows.ts';
import { until } from '#test/support/until.ts';

const rows: SqlOnlyErasureStage[] = ['chats', 'drafts', 'agents', 'folders', 'traces'];

describe('erasure activities', () => {
  const own = useIdleStack();
  let ada: Member;
  let grace: Member;
  let erasure: ErasureActivities;
  beforeEach(async () => {
    erasure = createErasureActivities(own.container);
    ada = await own.signUp();
    grace = await aColleague(own, ada, 'Grace', { is_admin: true });
  });

  const of = () => ({ orgId: ada.orgId, userId: grace.userId, erased: 0 });
  const stopWork = () => runActivity(erasure.stopWork, of());
  const eraseDocuments = () => runActivity(erasure.eraseDocuments, of());
  const erase = (what: SqlOnlyErasureStage) => () => runActivity(erasure.eraseRows, { ...of(), what });
  const forgetLeaver = () => runActivity(erasure.forgetLeaver, of());
  const twice = <Result>(step: () => Promise<Result>) => Promise.all([step(), step()]);

  const aNote = async () => (await anUpload(grace, { name: 'note.txt', content: 'Some words.' })).id;
  const leave = () => ada.delete(`/entity/members/${grace.userId}`, 204);
  const jobOf = (id: string) => own.db('jobs').where({ id }).first();
  const userNow = () => own.db('users').where({ id: grace.userId }).first();

  async function takeAway(documentId: string): Promise<void> {
    const { deletion } = own.container;
    const of = { orgId: ada.orgId, documentId };
    await until('the deletion is requested', () => jobOf(deletionWorkflowId(documentId)));
    await deletion.deleteOriginal(of);
    await deletion.forgetDocument(of);
    await deletion.recordDeletion(of);
  }

  it('erase the personal content of a user, even if each activity runs twice at the same time', async () => {
    const { userId } = grace;
    const documentId = await aNote();
    await aPublishedAgent(grace);
    await storeEvaluation(own.db, grace);
    await leave();
    expect(await forgetLeaver(), 'with content that is left').deep.equal({ isMore: true });
    expect(await userNow()).include({ email: grace.email });
    await twice(stopWork);
    expect(await jobOf(`ingest-${documentId}-1`)).include({ status: 'cancelled' });
    expect(await jobOf(erasureWorkflowId(userId))).include({ stage: 'wait', status: 'running' });
    const [results] = await Promise.all([twice(eraseDocuments), takeAway(documentId)]);
    for (const { isMore } of results) expect(isMore).equal(false);
    for (const what of rows) await twice(erase(what));
    expect(await twice(forgetLeaver)).deep.equal([{ isMore: false }, { isMore: false }]);
    for (const [tables, of] of [
      [['documents', 'drafts', 'agents', 'folders'], { createdBy: userId }],
      [['evaluationRuns', 'evaluationUnits', 'judgements'], { orgId: ada.orgId }],
    ] as const) {
      for (const table of tables) expect(await own.db(table).where(of), table).deep.equal([]);
    }
    expect(await userNow()).include({ email: '', displayName: 'Grace' });
    expect(await own.db('auditLog').where({ target: userId, action: 'account.erased' })).length(1);
  });

  it('move documents that others created out of the personal folders of the user, and keep shared folders', async () => {
    const [shared, ofGrace] = [await rootOf(ada, 'org_root'), await rootOf(grace, 'personal_root')];
    const [staying, taken] = [await aFolder(grace, shared), await aFolder(ada, shared)];
    const below = await aFolder(ada, taken.id);
    const [alone, both] = [await aDocumentIn(ada, below.id), await aDocumentIn(ada, below.id)];
    await grace.post(`/documents/${both}/links`, { folder_id: staying.id }, 201);
    await grace.patch(`/folders/${taken.id}`, { parent_id: ofGrace }, 200);
    await leave();
    await stopWork();
    await eraseDocuments();
    await twice(erase('folders'));
    expect(await forgetLeaver()).deep.equal({ isMore: false });
    const placesOf = async (id: string) => ({
      acl: (await own.db('documents').where({ id }).first('acl')).acl,
      folderIds: await own.db('folderLinks').where({ documentId: id }).pluck('folder_id'),
    });
    const key = `user:${ada.userId}`;
    expect(await placesOf(alone)).deep.equal({ acl: [key], folderIds: [await rootOf(ada, 'personal_root')] });
    expect(await placesOf(both)).deep.equal({ acl: [key, `org:${ada.orgId}`], folderIds: [staying.id] });
    const folders = own.db('folders').whereIn('id', [staying.id, taken.id, below.id]);
    expect(await folders.pluck('id')).deep.equal([staying.id]);
  });

  it('erase nothing of a user or an organization that is not deleted, as after the restore of an older database', async () => {
    const documentId = await aNote();
    const { erasure: service } = own.container;
    const { signal } = new AbortController();
    for (const userId of [grace.userId, null]) {
      const live = { ...of(), userId };
      await service.eraseDocuments(live, signal);
      for (const what of rows) await service.eraseRows({ ...live, what }, signal);
      await service.forget(live);
    }
    await grace.get(`/documents/${documentId}`, 200);
    expect(await userNow()).include({ email: grace.email });
    expect(await own.db('organizations').where({ id: ada.orgId }).first()).include({ deletedAt: null });
  });

  it('retry a failed deletion once, then throw erasure_incomplete, after which an org admin can retry the deletion', async () => {
    const documentId = await aNote();
    await leave();
    const erasing = appErrorCode(eraseDocuments());
    const jobId = deletionWorkflowId(documentId);
    for (const attempt of [1, 2]) {
      await until('the deletion is requested', async () => (await jobOf(jobId))?.attempt === attempt);
      const error = { code: 'blob_missing', message: 'It is gone.' };
      await own.container.deletion.recordFailure({ orgId: ada.orgId, documentId, error, attempt });
    }
    expect(await erasing).equal('erasure_incomplete');
    expect((await ada.get(`/jobs/${jobId}`, 200)).body).include({ status: 'failed' });
    await ada.post(`/jobs/${jobId}/retry`, {}, 202);
  });
});
