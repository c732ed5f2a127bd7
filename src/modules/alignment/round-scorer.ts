import type { Logger } from 'pino';
import { calibrationFor, scorerVersion } from '#src/domain/alignment-calibration.ts';
import { type AlignmentEventBody, foldEvents } from '#src/domain/alignment-events.ts';
import { foldRound, initialFoldState } from '#src/domain/alignment-fold.ts';
import { type RoundTexts, type ScoredRound, scoreRound, textsToEmbed } from '#src/domain/alignment-round.ts';
import { roundsToPrune } from '#src/domain/alignment-steering.ts';
import { refusalKind } from '#src/domain/refusal.ts';
import type { AnalyzeText } from '#src/domain/text-analysis.ts';
import { AppError } from '#src/errors.ts';
import type { Embedder } from '#src/ports/embedder.ts';
import type { FoldedRow, ScoredChat, ScoringResult, UnscoredRound } from './alignment.model.ts';
import { createAgentAnchors, wordAnchors } from './anchors.ts';

export type ScoringOptions = { mayDegrade: boolean; signal: AbortSignal };

export type RoundScorer = ReturnType<typeof createRoundScorer>;

/** Scores a round and folds it onto the state before it. Throws at construction for a model without a calibration. */
export function createRoundScorer(deps: { embedder: Embedder; analyze: AnalyzeText; logger: Pick<Logger, 'warn'> }) {
  const { embedder, analyze, logger } = deps;
  const calibration = calibrationFor(embedder.model);
  const anchorsOf = createAgentAnchors({ embedder, analyze });

  async function measure(chat: ScoredChat, texts: RoundTexts, options: ScoringOptions): Promise<ScoredRound> {
    try {
      const wanted = textsToEmbed(texts, analyze);
      const [anchors, vectors] = await Promise.all([
        anchorsOf(chat, options.signal),
        embedder.embed(wanted, { signal: options.signal }),
      ]);
      const vectorOf = (text: string) => vectors[wanted.indexOf(text)] ?? null;
      return scoreRound(texts, anchors, { vectorOf, analyze, calibration });
    } catch (error) {
      // A fault that waiting does not heal is not waited for.
      const canGoOn = error instanceof AppError && (options.mayDegrade || error.errorClass !== 'transient');
      if (!canGoOn) throw error;
      logger.warn({ err: error, chatId: chat.chatId }, 'a round is scored by words alone');
      const anchors = wordAnchors(chat.anchorWords, analyze);
      return scoreRound(texts, anchors, { vectorOf: () => null, analyze, calibration });
    }
  }

  /** `folded`: the scored rounds before this one, in order, at least as far back as the newest streak. */
  return async (
    chat: ScoredChat,
    waiting: UnscoredRound,
    folded: readonly FoldedRow[],
    options: ScoringOptions,
  ): Promise<ScoringResult> => {
    const { round } = waiting;
    const before = folded.at(-1);
    const texts = {
      user: waiting.userContent,
      agent: waiting.assistantReply,
      previousUser: before?.userContent ?? null,
    };
    const measured = await measure(chat, texts, options);

    const thresholds = { offTopic: chat.userOffTopicStreakThreshold, onTopic: chat.userOnTopicStreakThreshold };
    const previous = before?.foldState ?? initialFoldState;
    const state = foldRound(previous, { ...measured, refusal: measured.refusal !== null }, thresholds);
    const refusal = measured.refusal && {
      kind: refusalKind(measured.refusal, state.userLabel),
      score: measured.refusal.score,
    };

    const alreadyPruned = new Set(folded.filter((row) => row.pruned).map((row) => row.round));
    const states = [...folded.map((row) => ({ round: row.round, state: row.foldState })), { round, state }];
    const prunedRounds = roundsToPrune(states).filter((candidate) => !alreadyPruned.has(candidate));

    const events: AlignmentEventBody[] = foldEvents(
      previous,
      state,
      { neutral: measured.neutral, refusal },
      thresholds,
    );
    if (prunedRounds.length > 0) {
      events.push({ type: 'messages_pruned', data: { message_ids: prunedRounds.flatMap(messageIds) } });
    }
    if (measured.isDegraded) events.push({ type: 'scoring_degraded', data: { reason: 'embedder_unavailable' } });

    const at = new Date().toISOString();
    return {
      prunedRounds,
      score: {
        scorerVersion: scorerVersion(calibration),
        userScore: measured.user,
        agentScore: measured.agent,
        neutral: measured.neutral,
        refusalKind: refusal?.kind ?? null,
        alignmentScore: state.alignmentScore,
        ewma: state.ewma,
        echoState: state.shown,
        foldState: state,
        events: events.map((event) => ({ ...event, round, at })),
      },
    };
  };
}

/** The two messages of a round, as events name them. */
function messageIds(round: number): string[] {
  return [`${round}:user`, `${round}:assistant`];
}
