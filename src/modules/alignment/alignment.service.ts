import type { Knex } from 'knex';
import type {
  RecordAlignmentCancellationInput,
  ScoreAlignmentInput,
  ScoreRoundResult,
} from '#src/contracts/alignment.ts';
import { alignmentWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ChatModel } from '#src/ports/models.ts';
import { type AlignmentSubject, type FoldedScore, type ScoredChat, thresholdsOf } from './alignment.model.ts';
import { createAlignmentRepository } from './alignment.repository.ts';
import { proposeTitle } from './chat-namer.ts';
import { createChatRescorer } from './chat-rescorer.ts';
import { foldedRoundsRead, foldMeasured } from './folded-score.ts';
import type { RoundMeasurer } from './round-measurer.ts';

const overdueBatch = 50;
/** Chats that are scored again at the same time: bulk work beside that for which people wait. */
const rescoredAtOnce = 20;

type StoredRound = FoldedScore & { round: number };

/** `mayDegrade`: scores by words alone when the embedder is away. */
export type ScoringOptions = { mayDegrade: boolean; signal: AbortSignal };

export type AlignmentService = ReturnType<typeof createAlignmentService>;

/**
 * Scores the rounds of chats one by one, in order. The complete rounds without scores are the queue, so that a nudge
 * too many or too few changes nothing.
 */
export function createAlignmentService(deps: {
  db: Knex;
  rounds: RoundMeasurer;
  chatModel: Pick<ChatModel, 'complete'>;
  jobs: Pick<
    JobsService,
    'enqueue' | 'enqueueAll' | 'dispatch' | 'advance' | 'advanceWithin' | 'recordCancellationOfNudged'
  >;
}) {
  const { db, rounds, chatModel, jobs } = deps;
  const repository = createAlignmentRepository(db);
  const rescore = createChatRescorer({ db, rounds });

  /** Writes the job that scores the chat's newest round, beside the round, in its transaction. */
  async function requestScoring(trx: Knex, chat: AlignmentSubject, requestId: string | null): Promise<void> {
    await jobs.enqueue(trx, jobOf(chat, { requestId, bulk: false }));
  }

  function jobOf(chat: AlignmentSubject, { requestId, bulk }: { requestId: string | null; bulk: boolean }) {
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
        summary: `Alignment of chat ${chat.id}`,
        ...(bulk && { bulk }),
      },
      requestId,
    };
  }

  /** Nudges the chat's scorer, after the commit. Never throws. */
  async function nudge(chatId: string): Promise<void> {
    await jobs.dispatch(alignmentWorkflowId(chatId));
  }

  /**
   * Scores the oldest round that waits, undefined when none does. Null when somebody else was faster: his scores stand,
   * they follow from the same texts; also when the round before is read otherwise since then.
   */
  async function scoreOldest(chat: ScoredChat, options: ScoringOptions): Promise<StoredRound | null | undefined> {
    const waiting = await repository.findOldestUnscored(chat);
    if (waiting === undefined) return undefined;
    const { round } = waiting;
    const before = await repository.findSaidBefore(chat, round);
    const measured = await rounds.measure(chat, waiting, before, {
      byWords: options.mayDegrade ? 'always' : 'unless_it_heals',
      signal: options.signal,
    });
    return db.transaction(async (trx) => {
      const stored = createAlignmentRepository(trx);
      await stored.lockChat(chat);
      const stillBefore = await stored.findSaidBefore(chat, round);
      if (stillBefore?.isRefusal !== before?.isRefusal) return null;
      const { score, prunedRounds } = foldMeasured(
        { round, measured, kept: waiting.events, at: new Date() },
        await stored.listFolded(chat, round, foldedRoundsRead),
        thresholdsOf(chat),
      );
      if (!(await stored.storeScore(chat, round, score))) return null;
      await stored.pruneRounds(chat, prunedRounds);
      await stored.showNewest(chat, round, score);
      return { ...score, round };
    });
  }

  return {
    requestScoring,
    nudge,

    /**
     * A step of the sweeper: queues the jobs of chats again whose scorer ended before its work was done, and those of
     * chats that an operator wants scored again, some at a time.
     */
    async requeueOverdue(): Promise<void> {
      for (const chat of await repository.listOverdue(overdueBatch)) await requestScoring(db, chat, null);
      const due = await repository.listRescoringDue(rescoredAtOnce);
      await jobs.enqueueAll(
        db,
        due.map((chat) => jobOf(chat, { requestId: null, bulk: true })),
      );
    },

    /**
     * Asks for all chats of an organization, or of all, to be scored again that have a round of another scorer: of
     * another calibration, another model, or by words alone. Asked twice it is the same. @returns how many it is for
     */
    async requestRescoring(orgId: string | null): Promise<number> {
      // Each some of them: a message waits while its chat is held.
      let after: string | undefined = '00000000-0000-0000-0000-000000000000';
      while (after !== undefined) after = await repository.wantRescoring(orgId, rounds.version, after);
      return repository.countRescoring(orgId);
    },

    /** How many chats still wait to be scored again. */
    async countRescoring(orgId: string | null): Promise<number> {
      return repository.countRescoring(orgId);
    },

    /**
     * Scores the oldest round that waits; when none does, some rounds that are to be scored again. Without the embedder
     * it throws the embedder's error, or scores by words alone when it `mayDegrade`.
     */
    async scoreNextRound(input: ScoreAlignmentInput, options: ScoringOptions): Promise<ScoreRoundResult> {
      for (;;) {
        const chat = await repository.findChat(input);
        if (chat === undefined) return { scored: false };
        const oldest = await scoreOldest(chat, options);
        if (oldest === null) continue;
        const scored = oldest ?? (await rescore(chat, options.signal));
        if (scored === undefined) return { scored: false };
        const { round, echoState: state, ewma } = scored;
        await jobs.advance(alignmentWorkflowId(input.chatId), {
          status: 'running',
          stage: 'score',
          progress: { done: round, total: null, unit: 'round' },
        });
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

    /** Closes the job, and leaves the reason in the round that still waits; the sweeper begins anew. */
    async recordFailure(input: ScoreAlignmentInput, error: { code: string; message: string }): Promise<void> {
      await repository.noteFailure(input, error.code);
      await jobs.advance(alignmentWorkflowId(input.chatId), { status: 'failed', error });
    },

    async recordCancellation({ chatId, startId }: RecordAlignmentCancellationInput): Promise<void> {
      await jobs.recordCancellationOfNudged(alignmentWorkflowId(chatId), startId);
    },
  };
}
