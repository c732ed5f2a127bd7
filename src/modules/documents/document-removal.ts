import { deletionWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { RequestActor } from '#src/domain/visibility.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { Db } from '#src/ports/database.ts';
import { lockWritable } from './document-access.ts';
import { createDocumentsRepository } from './documents.repository.ts';

export type RemovalDeps = { db: Db; jobs: Pick<JobsService, 'enqueue' | 'dispatch'> };

/** Takes documents away from their readers at once, and from the stores by a workflow. */
export function createDocumentRemoval({ db, jobs }: RemovalDeps) {
  return {
    /** Throws `document_not_found`, and `forbidden` for who may only read it. */
    async remove(actor: RequestActor, documentId: string): Promise<void> {
      const { orgId, userId, requestId } = actor;
      const jobId = deletionWorkflowId(documentId);
      await db.transaction(async (trx) => {
        const { acl } = await lockWritable(trx, actor, documentId);
        await createDocumentsRepository(trx).markDeleted({ id: documentId, updatedBy: userId });
        await jobs.enqueue(trx, {
          id: jobId,
          kind: 'delete',
          orgId,
          createdBy: userId,
          // Those who could read the document may see that it goes.
          acl,
          documentId,
          start: { workflow: 'deleteDocument', input: { orgId, documentId }, summary: 'Delete a document' },
          requestId,
        });
      });
      await jobs.dispatch(jobId);
    },
  };
}
