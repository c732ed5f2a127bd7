import type {
  RecordAlignmentCancellationInput,
  ScoreAlignmentInput,
  ScoreRoundResult,
} from '#src/contracts/alignment.ts';
import { alignmentWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ChatModel } from '#src/ports/chat-model.ts';
import type { Db } from '#src/ports/database.ts';
import type { AlignmentSubject, ScoringResult } from './alignment.model.ts';
import { createAlignmentRepository } from './alignment.repository.ts';
import { proposeTitle } from './chat-namer.ts';
import type { RoundScorer, ScoringOptions } from './round-scorer.ts';

/** Pruning goes back over one streak; what was in it longer ago is pruned already. */
const foldedRoundsRead = 50;
const overdueBatch = 50;

export type AlignmentService = ReturnType<typeof createAlignmentService>;

/**
 * Scores the rounds of chats one by one, in order. The complete rounds without scores are the queue, so that a nudge
 * too many or too few changes nothing.
 */
export function createAlignmentService(deps: {
  db: Db;
  scoreRound: RoundScorer;
  chatModel: Pick<ChatModel, 'complete'>;
  jobs: Pick<JobsService, 'enqueue' | 'dispatch' | 'advance' | 'advanceWithin' | 'recordCancellationOfNudged'>;
}) {
  const { db, scoreRound, chatModel, jobs } = deps;
  const repository = createAlignmentRepository(db);

  /** Writes the job that scores the chat's newest round, beside the round, in its transaction. */
  async function requestScoring(trx: Db, chat: AlignmentSubject, requestId: string | null): Promise<void> {
    await jobs.enqueue(trx, {
      id: alignmentWorkflowId(chat.id),
      kind: 'alignment',
      orgId: chat.orgId,
      createdBy: chat.createdBy,
      acl: chat.acl,
      chatId: chat.id,
      agentId: chat.agentId,
      start: {
        workflow: 'scoreAlignment',
        input: { orgId: chat.orgId, chatId: chat.id },
        summary: `Alignment of chat ${chat.id}`,
      },
      requestId,
    });
  }

  /** Nudges the chat's scorer, after the commit. Never throws. */
  async function nudge(chatId: string): Promise<void> {
    await jobs.dispatch(alignmentWorkflowId(chatId));
  }

  /** False when these scores are not needed any more. */
  async function store(input: ScoreAlignmentInput, round: number, result: ScoringResult): Promise<boolean> {
    return db.transaction(async (trx) => {
      const stored = createAlignmentRepository(trx);
      await stored.lockChat(input);
      if (!(await stored.storeScore(input, round, result.score))) return false;
      await stored.pruneRounds(input, result.prunedRounds);
      await stored.showNewest(input, round, result.score);
      return true;
    });
  }

  return {
    requestScoring,
    nudge,

    /** A step of the sweeper: queues the jobs of chats again whose scorer ended before its work was done. */
    async requeueOverdue(): Promise<void> {
      for (const chat of await repository.listOverdue(overdueBatch)) await requestScoring(db, chat, null);
    },

    /**
     * Scores the oldest round that waits. Without the embedder it throws the embedder's error, or scores by words alone
     * when it `mayDegrade`.
     */
    async scoreNextRound(input: ScoreAlignmentInput, options: ScoringOptions): Promise<ScoreRoundResult> {
      for (;;) {
        const [chat, waiting] = await Promise.all([repository.findChat(input), repository.findOldestUnscored(input)]);
        if (chat === undefined || waiting === undefined) return { scored: false };
        const { round } = waiting;
        const folded = await repository.listFolded(input, round, foldedRoundsRead);
        const result = await scoreRound(chat, waiting, folded, options);
        // When somebody else was faster, his scores stand: they follow from the same texts.
        if (!(await store(input, round, result))) continue;
        await jobs.advance(alignmentWorkflowId(input.chatId), {
          status: 'running',
          stage: 'score',
          progress: { done: round, total: null, unit: 'round' },
        });
        const { echoState: state, ewma } = result.score;
        return { scored: true, round, state, ewma, isUntitled: chat.titleSource === 'message' };
      }
    },

    /** Gives the chat a name of its own, unless it has one or its user chose one. */
    async nameChat(input: ScoreAlignmentInput, signal: AbortSignal): Promise<void> {
      const chat = await repository.findChat(input);
      if (chat?.titleSource !== 'message') return;
      const message = await repository.findFirstMessage(input);
      if (message === undefined) return;
      const title = await proposeTitle(chatModel, { model: chat.chatModel, message, signal });
      if (title !== null) await repository.nameChat(input, title);
    },

    /** Closes the job, unless another round came meanwhile: its nudge is on the way. */
    async recordSuccess(input: ScoreAlignmentInput): Promise<void> {
      await db.transaction(async (trx) => {
        const chat = createAlignmentRepository(trx);
        // A new round comes under this lock, too, and opens the job again.
        await chat.lockChat(input);
        if (await chat.hasUnscored(input)) return;
        const done = (await chat.findNewestScored(input)) ?? 0;
        await jobs.advanceWithin(trx, alignmentWorkflowId(input.chatId), {
          status: 'succeeded',
          progress: { done, total: null, unit: 'round' },
        });
      });
    },

    async recordFailure(input: ScoreAlignmentInput, error: { code: string; message: string }): Promise<void> {
      await jobs.advance(alignmentWorkflowId(input.chatId), { status: 'failed', error });
    },

    async recordCancellation({ chatId, startId }: RecordAlignmentCancellationInput): Promise<void> {
      await jobs.recordCancellationOfNudged(alignmentWorkflowId(chatId), startId);
    },
  };
}
