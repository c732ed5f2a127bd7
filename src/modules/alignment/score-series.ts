import { isDeepStrictEqual } from 'node:util';
import type { Knex } from 'knex';
import {
  alignmentStateAfterRound,
  initialAlignmentState,
  type StreakThresholds,
} from '#src/domain/alignment/chat-state.ts';
import { type AlignmentEvent, type AlignmentEventBody, alignmentEventsOfRound } from '#src/domain/alignment/events.ts';
import { refusalKindOfRound } from '#src/domain/alignment/refusal.ts';
import { roundsToPruneFromContext } from '#src/domain/alignment/steering.ts';
import { AppError } from '#src/errors.ts';
import {
  type ChatToScore,
  type EarlierScoredRound,
  type RoundMeasurement,
  type RoundScoringResult,
  type StoredRoundScore,
  streakThresholdsOfChat,
} from './alignment.model.ts';
import { createAlignmentRepository } from './alignment.repository.ts';
import type { RoundMeasurer } from './round-measurer.ts';

/**
 * Number of earlier rounds from which a chat's alignment state is computed. It is enough, because a streak of off-topic
 * rounds is pruned from the history long before it is this long.
 */
export const maxEarlierRounds = 50;

/**
 * Computes the scores and events of a round from its measurement and the scored rounds before it, in order.
 * @param kept events that the round already has and that are preserved
 * @param at when the round was scored for the first time
 */
export function computeRoundScore(
  {
    round,
    measured,
    kept,
    at,
  }: { round: number; measured: RoundMeasurement; kept: readonly AlignmentEvent[]; at: Date },
  before: readonly EarlierScoredRound[],
  thresholds: StreakThresholds,
): RoundScoringResult {
  const { userScore: user, agentScore: agent, neutral, refusalReading } = measured;
  const previous = before.at(-1)?.state ?? initialAlignmentState;
  const state = alignmentStateAfterRound(
    previous,
    { user, agent, neutral, refusal: refusalReading !== null },
    thresholds,
  );
  const refusal = refusalReading && {
    kind: refusalKindOfRound(refusalReading, state.userLabel),
    score: refusalReading.score,
  };

  const alreadyPruned = new Set(before.filter(({ pruned }) => pruned).map((row) => row.round));
  const prunedRounds = roundsToPruneFromContext([...before, { round, state }]).filter(
    (other) => !alreadyPruned.has(other),
  );

  const events: AlignmentEventBody[] = alignmentEventsOfRound(previous, state, { neutral, refusal }, thresholds);
  if (prunedRounds.length > 0) {
    events.push({ type: 'messages_pruned', data: { message_ids: prunedRounds.flatMap(messageIds) } });
  }
  if (measured.scoreSource === 'words') {
    events.push({ type: 'scoring_degraded', data: { reason: 'embedder_unavailable' } });
  }
  return {
    prunedRounds,
    score: {
      ...measured,
      refusalKind: refusal?.kind ?? null,
      alignmentScore: state.alignmentScore,
      ewma: state.ewma,
      echoState: state.shown,
      foldState: state,
      events: [...kept, ...events.map((event) => ({ ...event, round, at: at.toISOString() }))],
    },
  };
}

function messageIds(round: number): string[] {
  return [`${round}:user`, `${round}:assistant`];
}

/** Recomputes a chat's scores. `measuredAnew`: new measurements by round, which replace stored ones. */
export function recomputeRoundScores(
  stored: readonly StoredRoundScore[],
  measuredAnew: ReadonlyMap<number, RoundMeasurement>,
  thresholds: StreakThresholds,
): StoredRoundScore[] {
  const folded = new Map<number, StoredRoundScore>();
  const before: EarlierScoredRound[] = [];
  for (const row of stored) {
    const measured = measuredAnew.get(row.round) ?? measuredOf(row);
    const kept = row.events.filter(({ type }) => type === 'scoring_failed');
    const { score, prunedRounds } = computeRoundScore(
      { round: row.round, measured, kept, at: row.scoredAt },
      before.slice(-maxEarlierRounds),
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

function measuredOf({ scorerVersion, scoreSource, userScore, agentScore, neutral, refusalReading }: StoredRoundScore) {
  return { scorerVersion, scoreSource, userScore, agentScore, neutral, refusalReading };
}

/** Maximum rounds rescored in one step: a step occupies the embedder for a second or two, while other chats wait. */
const roundsPerStep = 20;
/** Time limit of a rescoring step, which takes long if a chat model decides doubtful scores in each round. */
const stepMs = 30_000;

type Measured = { byRound: Map<number, RoundMeasurement>; isLast: boolean };

/**
 * Rescores some outdated rounds of a chat, oldest first. Recomputes the scores of all its rounds in the same
 * transaction, because the scores of a round depend on those before it.
 * @returns the newest scored round; undefined if rescoring was not requested, no round is left, another worker was
 * faster or the embedder is unavailable (the sweeper retries)
 */
export async function rescoreOutdatedRoundsOfChat(
  { db, rounds }: { db: Knex; rounds: RoundMeasurer },
  chat: ChatToScore,
  signal: AbortSignal,
): Promise<StoredRoundScore | undefined> {
  if (chat.rescoringWantedAt === null) return undefined;
  const measured = await measureOutdated({ db, rounds }, chat, signal).catch((error: unknown) => {
    if (!(error instanceof AppError) || signal.aborted) throw error;
    return null;
  });
  if (measured === null) return undefined;
  const { byRound, isLast } = measured;
  return db.transaction(async (trx) => {
    const stored = createAlignmentRepository(trx);
    await stored.lockChat(chat);
    // If another worker rescored these rounds meanwhile, `rescoredTo` has changed and this worker stores nothing.
    if ((await stored.findChat(chat))?.rescoredTo !== chat.rescoredTo) return undefined;
    const scores = await stored.listScores(chat);
    const refolded = recomputeRoundScores(scores, byRound, streakThresholdsOfChat(chat));
    const misread = misreadRounds(scores, refolded, byRound);
    for (const [index, row] of refolded.entries()) {
      const score = misread.includes(row.round) ? { ...row, scorerVersion: misreadVersion } : row;
      if (!isDeepStrictEqual(score, scores[index])) await stored.replaceScore(chat, score);
    }
    const newest = refolded.at(-1);
    if (newest !== undefined) await stored.setChatState(chat, newest.round, newest);
    if (isLast && misread.length === 0) await stored.endRescoring(chat);
    else await stored.setRescoredTo(chat, Math.min(...misread.map((round) => round - 1), Math.max(...byRound.keys())));
    return byRound.size === 0 ? undefined : newest;
  });
}

async function measureOutdated(
  { db, rounds }: { db: Knex; rounds: RoundMeasurer },
  chat: ChatToScore,
  signal: AbortSignal,
): Promise<Measured> {
  const repository = createAlignmentRepository(db);
  const byRound = new Map<number, RoundMeasurement>();
  const listed = await repository.listOutdated(chat, rounds.version, roundsPerStep);
  const until = performance.now() + stepMs;
  for (const outdated of listed) {
    if (performance.now() > until) break;
    const previous = await repository.findPreviousRound(chat, outdated.round);
    const remeasured = previous && byRound.get(previous.round);
    const before = previous && remeasured ? { ...previous, isRefusal: remeasured.refusalReading !== null } : previous;
    byRound.set(outdated.round, await rounds.measure(chat, outdated, before, { byWords: 'if_rejected', signal }));
  }
  return { byRound, isLast: listed.length < roundsPerStep && byRound.size === listed.length };
}

/** Marks rounds for another measurement, because rescoring changed whether the round before is a refusal. */
const misreadVersion = 'misread';

/** Returns the rounds to measure again, because rescoring changed whether the round before them is a refusal. */
function misreadRounds(
  scores: readonly StoredRoundScore[],
  refolded: readonly StoredRoundScore[],
  byRound: ReadonlyMap<number, RoundMeasurement>,
): number[] {
  const isRefusal = (score: StoredRoundScore | undefined) => score !== undefined && score.refusalKind !== null;
  const isMisread = ({ round }: StoredRoundScore, index: number) =>
    !byRound.has(round) && isRefusal(refolded[index - 1]) !== isRefusal(scores[index - 1]);
  return refolded.filter(isMisread).map(({ round }) => round);
}
