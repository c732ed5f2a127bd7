import { isDeepStrictEqual } from 'node:util';
import { AppError } from '#src/errors.ts';
import type { Db } from '#src/ports/database.ts';
import { type MeasuredRound, type ScoredChat, type StoredScore, thresholdsOf } from './alignment.model.ts';
import { createAlignmentRepository } from './alignment.repository.ts';
import { refoldScores } from './refolded-scores.ts';
import type { RoundMeasurer } from './round-measurer.ts';

/** A second or two of an embedder that others use, too. */
const roundsOfStep = 20;

/** The newest scored round of the chat, once it follows from what is measured so far. */
export type RescoreChat = (chat: ScoredChat, signal: AbortSignal) => Promise<StoredScore | undefined>;

/**
 * Scores some rounds that other scorers have scored again, the oldest first, and folds the whole series anew, so that
 * what is stored is one series at any moment. Undefined when nobody wants that or nothing is left, and while the
 * embedder is away: the sweeper comes back to it.
 */
export function createChatRescorer({ db, rounds }: { db: Db; rounds: RoundMeasurer }): RescoreChat {
  const repository = createAlignmentRepository(db);

  async function measureOutdated(chat: ScoredChat, signal: AbortSignal): Promise<Map<number, MeasuredRound>> {
    const measured = new Map<number, MeasuredRound>();
    for (const outdated of await repository.listOutdated(chat, rounds.version, roundsOfStep)) {
      const said = await repository.findSaidBefore(chat, outdated.round);
      const reading = said && measured.get(said.round);
      const before = said && reading ? { ...said, isRefusal: reading.refusalReading !== null } : said;
      measured.set(outdated.round, await rounds.measure(chat, outdated, before, { byWords: 'never', signal }));
    }
    return measured;
  }

  return async (chat, signal) => {
    if (chat.rescoringWantedAt === null) return undefined;
    const measured = await measureOutdated(chat, signal).catch((error: unknown) => {
      if (!(error instanceof AppError) || signal.aborted) throw error;
      return null;
    });
    if (measured === null) return undefined;
    return db.transaction(async (trx) => {
      const stored = createAlignmentRepository(trx);
      await stored.lockChat(chat);
      const scores = await stored.listScores(chat);
      const refolded = refoldScores(scores, measured, thresholdsOf(chat));
      for (const [index, row] of refolded.entries()) {
        if (!isDeepStrictEqual(row, scores[index])) await stored.replaceScore(chat, row);
      }
      const newest = refolded.at(-1);
      if (newest !== undefined) await stored.showRefolded(chat, newest);
      if (measured.size < roundsOfStep) await stored.forgetRescoring(chat);
      return measured.size === 0 ? undefined : newest;
    });
  };
}
