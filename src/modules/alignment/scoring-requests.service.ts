import type { Knex } from 'knex';
import { NIL } from 'uuid';
import { subjectInSummary } from '#src/contracts/jobs.ts';
import { alignmentWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ChatToQueueForScoring } from './alignment.model.ts';
import { createAlignmentRepository } from './alignment.repository.ts';

const overdueBatch = 50;
/** Maximum chats that are rescored at the same time, so that new rounds are scored without delay. */
const rescoredAtOnce = 20;

export type ChatScoringQueueService = ReturnType<typeof createChatScoringQueueService>;

/**
 * Queues chats for the workflow `scoreAlignment`. The workflow reads unscored rounds from the database, so lost or
 * repeated signals do no harm.
 */
export function createChatScoringQueueService(deps: {
  db: Knex;
  jobs: Pick<JobsService, 'enqueue' | 'enqueueAll' | 'dispatch'>;
  scorerVersion: string;
}) {
  const { db, jobs, scorerVersion } = deps;
  const repository = createAlignmentRepository(db);

  /** Inserts the job that scores a chat; call it in the transaction that completes a round. */
  async function requestScoring(trx: Knex, chat: ChatToQueueForScoring, requestId: string | null): Promise<void> {
    await jobs.enqueue(trx, jobOf(chat, { requestId, bulk: false }));
  }

  function jobOf(chat: ChatToQueueForScoring, { requestId, bulk }: { requestId: string | null; bulk: boolean }) {
    return {
      id: alignmentWorkflowId(chat.id),
      kind: 'alignment' as const,
      orgId: chat.orgId,
      createdBy: chat.createdBy,
      acl: chat.acl,
      chatId: chat.id,
      agentId: chat.agentId,
      start: {
        workflow: 'scoreAlignment' as const,
        input: { orgId: chat.orgId, chatId: chat.id },
        summary: `Score the alignment of ${subjectInSummary}`,
        ...(bulk && { bulk }),
      },
      requestId,
    };
  }

  /** Starts or signals the scoring workflow of a chat; call it after the commit. Never throws. */
  async function nudge(chatId: string): Promise<void> {
    await jobs.dispatch(alignmentWorkflowId(chatId));
  }

  return {
    requestScoring,
    nudge,

    /**
     * Queues chats with unscored rounds and no open job, and a limited number of chats that wait for rescoring. Run by
     * the sweeper.
     */
    async requeueOverdue(): Promise<void> {
      for (const chat of await repository.listOverdue(overdueBatch)) await requestScoring(db, chat, null);
      const due = await repository.listRescoringDue(rescoredAtOnce);
      await jobs.enqueueAll(
        db,
        due.map((chat) => jobOf(chat, { requestId: null, bulk: true })),
      );
    },

    async requestRescoring(orgId: string | null): Promise<number> {
      // Chats are marked for rescoring in batches, because new messages of a chat wait while its row is locked.
      let after: string | undefined = NIL;
      while (after !== undefined) after = await repository.markForRescoring(orgId, scorerVersion, after);
      return repository.countRescoring(orgId);
    },

    async countRescoring(orgId: string | null): Promise<number> {
      return repository.countRescoring(orgId);
    },
  };
}
