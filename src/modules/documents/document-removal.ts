import type { Knex } from 'knex';
import type { DeleteDocumentInput } from '#src/contracts/deletion.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import type { DeletionRequest, DeletionService } from '#src/modules/deletion/deletion.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import { lockWritable } from './document-access.ts';
import { createDocumentsRepository } from './documents.repository.ts';

export type RemovalDeps = {
  db: Knex;
  deletion: Pick<DeletionService, 'enqueue'>;
  jobs: Pick<JobsService, 'dispatch'>;
};

/** Takes documents away from their readers at once, and from the stores by a workflow. */
export function createDocumentRemoval({ db, deletion, jobs }: RemovalDeps) {
  return {
    /**
     * Throws `document_not_found`, and `forbidden` for who may only read it.
     * @param alongside what is written together with it
     */
    async remove(
      actor: RequestActor,
      documentId: string,
      alongside: (trx: Knex) => Promise<void> = () => Promise.resolve(),
    ): Promise<void> {
      const { orgId, userId, requestId } = actor;
      const jobId = await db.transaction(async (trx) => {
        const { acl } = await lockWritable(trx, actor, documentId);
        await createDocumentsRepository(trx).markDeleted([documentId], userId);
        await alongside(trx);
        // Those who could read the document may see that it goes.
        return deletion.enqueue(trx, { orgId, documentId }, { createdBy: userId, acl, requestId });
      });
      await jobs.dispatch(jobId);
    },

    /** The same with one that nobody may read any more, unless that has begun. */
    async discard(of: DeleteDocumentInput, request: DeletionRequest): Promise<void> {
      const jobId = await db.transaction(async (trx) => {
        if ((await createDocumentsRepository(trx).markDeleted([of.documentId], request.createdBy)) === 0) return null;
        return deletion.enqueue(trx, of, request);
      });
      if (jobId !== null) await jobs.dispatch(jobId);
    },
  };
}
