import { isDeepStrictEqual } from 'node:util';
import type { Knex } from 'knex';
import type { StreakThresholds } from '#src/domain/alignment/fold.ts';
import { AppError } from '#src/errors.ts';
import {
  type MeasuredRound,
  type RoundBefore,
  type ScoredChat,
  type StoredScore,
  thresholdsOf,
} from './alignment.model.ts';
import { createAlignmentRepository } from './alignment.repository.ts';
import { foldedRoundsRead, foldMeasured } from './folded-score.ts';
import type { RoundMeasurer } from './round-measurer.ts';

/**
 * The series of a chat anew, from what was measured of its rounds: as if each had been scored so in the first place.
 * @param stored all scored rounds of the chat in order
 * @param measuredAnew by round, in place of what is stored
 */
export function refoldScores(
  stored: readonly StoredScore[],
  measuredAnew: ReadonlyMap<number, MeasuredRound>,
  thresholds: StreakThresholds,
): StoredScore[] {
  const folded = new Map<number, StoredScore>();
  const before: RoundBefore[] = [];
  for (const row of stored) {
    const measured = measuredAnew.get(row.round) ?? measuredOf(row);
    const kept = row.events.filter(({ type }) => type === 'scoring_failed');
    const { score, prunedRounds } = foldMeasured(
      { round: row.round, measured, kept, at: row.scoredAt },
      before.slice(-foldedRoundsRead),
      thresholds,
    );
    folded.set(row.round, { ...score, round: row.round, scoredAt: row.scoredAt, pruned: false });
    before.push({ round: row.round, state: score.foldState, pruned: false });
    for (const gone of prunedRounds) {
      for (const each of [folded.get(gone), before.find(({ round }) => round === gone)]) if (each) each.pruned = true;
    }
  }
  return [...folded.values()];
}

function measuredOf({ scorerVersion, scoreSource, userScore, agentScore, neutral, refusalReading }: StoredScore) {
  return { scorerVersion, scoreSource, userScore, agentScore, neutral, refusalReading };
}

/** A second or two of an embedder that others use, too. */
const roundsOfStep = 20;
/** A step ends within minutes, also where a chat model is asked about each round. */
const stepMs = 30_000;

/** The newest scored round of the chat, once it follows from what is measured so far. */
type RescoreChat = (chat: ScoredChat, signal: AbortSignal) => Promise<StoredScore | undefined>;

type Measured = { byRound: Map<number, MeasuredRound>; isLast: boolean };

/**
 * Scores some rounds that other scorers have scored again, the oldest first, and folds the whole series anew, so that
 * what is stored is one series at any moment. Undefined when nobody wants that or nothing is left, and while the
 * embedder is away: the sweeper comes back to it.
 */
export function createChatRescorer({ db, rounds }: { db: Knex; rounds: RoundMeasurer }): RescoreChat {
  const repository = createAlignmentRepository(db);

  async function measureOutdated(chat: ScoredChat, signal: AbortSignal): Promise<Measured> {
    const byRound = new Map<number, MeasuredRound>();
    const listed = await repository.listOutdated(chat, rounds.version, roundsOfStep);
    const until = performance.now() + stepMs;
    for (const outdated of listed) {
      if (performance.now() > until) break;
      const said = await repository.findSaidBefore(chat, outdated.round);
      const reading = said && byRound.get(said.round);
      const before = said && reading ? { ...said, isRefusal: reading.refusalReading !== null } : said;
      byRound.set(outdated.round, await rounds.measure(chat, outdated, before, { byWords: 'where_refused', signal }));
    }
    return { byRound, isLast: listed.length < roundsOfStep && byRound.size === listed.length };
  }

  return async (chat, signal) => {
    if (chat.rescoringWantedAt === null) return undefined;
    const measured = await measureOutdated(chat, signal).catch((error: unknown) => {
      if (!(error instanceof AppError) || signal.aborted) throw error;
      return null;
    });
    if (measured === null) return undefined;
    const { byRound, isLast } = measured;
    return db.transaction(async (trx) => {
      const stored = createAlignmentRepository(trx);
      await stored.lockChat(chat);
      // Somebody else who scores the chat again was faster.
      if ((await stored.findChat(chat))?.rescoredTo !== chat.rescoredTo) return undefined;
      const scores = await stored.listScores(chat);
      const refolded = refoldScores(scores, byRound, thresholdsOf(chat));
      const misread = misreadRounds(scores, refolded, byRound);
      for (const [index, row] of refolded.entries()) {
        const score = misread.includes(row.round) ? { ...row, scorerVersion: misreading } : row;
        if (!isDeepStrictEqual(score, scores[index])) await stored.replaceScore(chat, score);
      }
      const newest = refolded.at(-1);
      if (newest !== undefined) await stored.showRefolded(chat, newest);
      if (isLast && misread.length === 0) await stored.forgetRescoring(chat);
      else await stored.rescoreTo(chat, Math.min(...misread.map((round) => round - 1), Math.max(...byRound.keys())));
      return byRound.size === 0 ? undefined : newest;
    });
  };
}

/** The version of a round whose scores follow from what the round before was taken for: the next step measures it. */
const misreading = 'misread';

/** The rounds that were measured after a refusal that is none any more, or the other way about. */
function misreadRounds(
  scores: readonly StoredScore[],
  refolded: readonly StoredScore[],
  byRound: ReadonlyMap<number, MeasuredRound>,
): number[] {
  const isRefusal = (score: StoredScore | undefined) => score !== undefined && score.refusalKind !== null;
  const isMisread = ({ round }: StoredScore, index: number) =>
    !byRound.has(round) && isRefusal(refolded[index - 1]) !== isRefusal(scores[index - 1]);
  return refolded.filter(isMisread).map(({ round }) => round);
}
