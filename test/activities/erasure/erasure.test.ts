import { expect } from 'chai';
import { createErasureActivities, type ErasureActivities } from '#activities/erasure.ts';
import type { EraseSliceResult, SqlOnlyErasureStage } from '#src/contracts/deletion.ts';
import { deletionWorkflowId, erasureWorkflowId } from '#src/contracts/workflow-ids.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { runActivity } from '#test/support/activity-environment.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { aColleague, aDocumentIn, aFolder, aPublishedAgent, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { useIdleStack } from '#test/support/idle-stack.ts';
import { membersAndRemains, remainsOfOrganization } from '#test/support/remaining-content.ts';
import { storeEvaluation } from '#test/support/stored-evaluation.ts';
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
    grace = await aColleague(own, ada);
  });

  type Step = 'stopWork' | 'eraseDocuments' | 'forgetLeaver' | SqlOnlyErasureStage;
  /** Runs a step, or the activity that erases rows of this kind. */
  async function run(step: Step, userId: string | null): Promise<Partial<EraseSliceResult>> {
    const of = { orgId: ada.orgId, userId, erased: 0 };
    if (step === 'eraseDocuments' || step === 'forgetLeaver') return runActivity(erasure[step], of);
    if (step !== 'stopWork') return runActivity(erasure.eraseRows, { ...of, what: step });
    await runActivity(erasure.stopWork, of);
    return {};
  }
  const runTwice = (step: Step, userId: string | null) => Promise.all([run(step, userId), run(step, userId)]);

  async function paste(member: Member): Promise<string> {
    const text = { name: 'note', content: 'Some words.', source_format: 'text' };
    return fullDocumentSchema.parse((await member.post('/documents/paste', text, 201)).body).id;
  }
  const leave = (member: Member) => ada.delete(`/entity/members/${member.userId}`, 204);
  const jobOf = (id: string) => own.db('jobs').where({ id }).first();
  const userNow = () => own.db('users').where({ id: grace.userId }).first();

  /** Replaces the deletion workers. */
  async function takeAway(documentId: string): Promise<void> {
    const { deletion } = own.container;
    const of = { orgId: ada.orgId, documentId };
    await until('the deletion is requested', () => jobOf(deletionWorkflowId(documentId)));
    await deletion.deleteOriginal(of);
    await deletion.forgetDocument(of);
    await deletion.recordDeletion(of);
  }

  it('erase the personal content of a user when each runs twice at the same time', async () => {
    const { userId } = grace;
    const documentId = await paste(grace);
    await aPublishedAgent(grace);
    await storeEvaluation(own.db, grace);
    await leave(grace);
    await runTwice('stopWork', userId);
    expect(await jobOf(`ingest-${documentId}-1`)).include({ status: 'cancelled' });
    expect(await jobOf(erasureWorkflowId(userId))).include({ stage: 'wait', status: 'running' });
    const [results] = await Promise.all([runTwice('eraseDocuments', userId), takeAway(documentId)]);
    for (const { isMore } of results) expect(isMore).equal(false);
    for (const what of rows) await runTwice(what, userId);
    expect(await runTwice('forgetLeaver', userId)).deep.equal([{ isMore: false }, { isMore: false }]);
    const left = {
      ...Object.fromEntries(
        ['documents', 'drafts', 'agents', 'folders'].map((table) => [table, { createdBy: userId }]),
      ),
      ...Object.fromEntries(
        ['evaluationRuns', 'evaluationUnits', 'judgements'].map((table) => [table, { orgId: ada.orgId }]),
      ),
    };
    for (const [table, of] of Object.entries(left)) expect(await own.db(table).where(of), table).deep.equal([]);
    expect(await userNow()).include({ email: '', displayName: 'Grace' });
    expect(await own.db('auditLog').where({ target: userId, action: 'account.erased' })).length(1);
  });

  it('erase an organization when each runs twice at the same time', async () => {
    const documentIds = [await paste(ada), await paste(grace)];
    await aPublishedAgent(grace, { visibility: 'org_level' });
    for (const member of [ada, grace]) await storeEvaluation(own.db, member);
    const { userIds } = await membersAndRemains(own, ada.orgId);
    await ada.delete('/entity/org', 204);
    await runTwice('stopWork', null);
    await Promise.all([runTwice('eraseDocuments', null), ...documentIds.map(takeAway)]);
    for (const what of rows) await runTwice(what, null);
    await runTwice('forgetLeaver', null);
    expect(await remainsOfOrganization(own, ada.orgId, userIds)).deep.equal([]);
  });

  it('keep content of other users: documents return to their creators, shared folders stay', async () => {
    await ada.patch(`/entity/members/${grace.userId}/org-admin`, { is_org_admin: true }, 200);
    const [shared, ofGrace] = [await rootOf(ada, 'org_root'), await rootOf(grace, 'personal_root')];
    const [staying, taken] = [await aFolder(grace, shared), await aFolder(ada, shared)];
    const below = await aFolder(ada, taken.id);
    const [alone, both] = [await aDocumentIn(ada, below.id), await aDocumentIn(ada, below.id)];
    await grace.post(`/documents/${both}/links`, { folder_id: staying.id }, 201);
    await grace.patch(`/folders/${taken.id}`, { parent_id: ofGrace }, 200);
    await leave(grace);
    await run('stopWork', grace.userId);
    await run('eraseDocuments', grace.userId);
    await runTwice('folders', grace.userId);
    expect(await run('forgetLeaver', grace.userId)).deep.equal({ isMore: false });
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

  it('keep the user if new content was stored in the meantime', async () => {
    await paste(grace);
    await leave(grace);
    expect(await run('forgetLeaver', grace.userId)).deep.equal({ isMore: true });
    expect(await userNow()).include({ email: grace.email });
  });

  it('retry a failed deletion once, then throw erasure_incomplete, and leave the job to the org admins', async () => {
    const documentId = await paste(grace);
    await leave(grace);
    const erasing = appErrorCode(run('eraseDocuments', grace.userId));
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
