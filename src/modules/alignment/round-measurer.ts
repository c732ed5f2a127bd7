import type { Logger } from 'pino';
import { createReadRefusal, refusalOf } from '#src/domain/alignment/refusal.ts';
import { type RoundTexts, type ScoredRound, scoreRound, textsToEmbed } from '#src/domain/alignment/round.ts';
import { type Anchor, calibrationFor, scorerVersion } from '#src/domain/alignment/score.ts';
import type { AnalyzeText } from '#src/domain/text/words.ts';
import { AppError, appError } from '#src/errors.ts';
import type { Embedder } from '#src/ports/models.ts';
import type { Adjudicate, Doubts, Verdict } from './adjudicator.ts';
import type { MeasuredRound, RoundSaidBefore, RoundTextsRow, ScoredChat } from './alignment.model.ts';

/** Some hundred vectors each; an agent that was forgotten costs one call of the embedder. */
const maxRememberedAgents = 200;

type AgentAnchors = (chat: Pick<ScoredChat, 'agentId' | 'anchorWords'>, signal: AbortSignal) => Promise<Anchor[]>;

/** Anchors for scoring by words alone. */
function wordAnchors(anchorWords: Record<string, number>, analyze: AnalyzeText): Anchor[] {
  return Object.entries(anchorWords).map(([word, weight]) => ({
    stems: analyze(word).map((term) => term.stem),
    weight,
    vector: null,
  }));
}

/** Embedded anchors by agent. They never change after its publication, so that they are embedded once a process. */
function createAgentAnchors(deps: { embedder: Embedder; analyze: AnalyzeText }): AgentAnchors {
  const { embedder, analyze } = deps;
  const remembered = new Map<string, Anchor[]>();

  return async ({ agentId, anchorWords }, signal) => {
    const known = remembered.get(agentId);
    if (known !== undefined) return known;
    const vectors = await embedder.embed(Object.keys(anchorWords), { signal });
    const anchors = wordAnchors(anchorWords, analyze).map((anchor, index) => ({
      ...anchor,
      vector: vectors[index] ?? null,
    }));
    if (remembered.size >= maxRememberedAgents) remembered.clear();
    remembered.set(agentId, anchors);
    return anchors;
  };
}

/**
 * `byWords`: when to go by words alone: whenever the embedder fails, only where waiting does not heal, or only where it
 * is the text that the embedder refuses.
 */
type MeasureOptions = { byWords: 'always' | 'unless_it_heals' | 'where_refused'; signal: AbortSignal };

export type RoundMeasurer = {
  /** What is stored with the rounds that it scores, unless by words alone. */
  readonly version: string;
  /** Without the embedder it throws the embedder's error, or goes by words alone. */
  measure(
    chat: ScoredChat,
    round: RoundTextsRow,
    before: RoundSaidBefore | undefined,
    options: MeasureOptions,
  ): Promise<MeasuredRound>;
};

/** Scores between these say little; a model that was asked puts them where nobody doubts. */
const doubtful = { from: 0.35, to: 0.65 } as const;
const adjudicated = { yes: 0.8, no: 0.2 } as const;

/**
 * Scores single rounds. Throws at construction for a model without a calibration.
 * @param deps.adjudicate asked about rounds in doubt; null: the scores decide alone
 */
export function createRoundMeasurer(deps: {
  embedder: Embedder;
  analyze: AnalyzeText;
  adjudicate: Adjudicate | null;
  logger: Pick<Logger, 'warn'>;
}): RoundMeasurer {
  const { analyze, adjudicate, logger } = deps;
  const calibration = calibrationFor(deps.embedder.model);
  const embedder = ofDimensions(deps.embedder, calibration.dimensions);
  const readRefusal = createReadRefusal(analyze, embedder.model);
  const anchorsOf = createAgentAnchors({ embedder, analyze });

  async function score(chat: ScoredChat, texts: RoundTexts, options: MeasureOptions): Promise<ScoredRound> {
    try {
      const wanted = textsToEmbed(texts, analyze);
      const [anchors, vectors] = await Promise.all([
        anchorsOf(chat, options.signal),
        embedder.embed(wanted, { signal: options.signal }),
      ]);
      const vectorOf = (text: string) => vectors[wanted.indexOf(text)] ?? null;
      return scoreRound(texts, anchors, { vectorOf, analyze, calibration, readRefusal });
    } catch (error) {
      if (!(error instanceof AppError) || !mayGoByWords(error, options)) throw error;
      logger.warn({ err: error, chatId: chat.chatId }, 'a round is scored by words alone');
      const anchors = wordAnchors(chat.anchorWords, analyze);
      return scoreRound(texts, anchors, { vectorOf: () => null, analyze, calibration, readRefusal });
    }
  }

  return {
    version: scorerVersion(calibration),

    async measure(chat, round, before, options) {
      const texts: RoundTexts = {
        user: round.userContent,
        agent: round.assistantReply,
        previousUser: before?.userContent ?? null,
        previousReply: before === undefined || before.isRefusal ? null : before.assistantReply,
      };
      const scored = await score(chat, texts, options);
      const doubts = doubtsOf(scored);
      const isAsked = adjudicate !== null && Object.values(doubts).includes(true);
      const verdict = isAsked ? await adjudicate(chat, round, options.signal) : null;
      const decided = verdict === null ? scored : decide(scored, doubts, verdict);
      return {
        scorerVersion: scorerVersion(calibration, scored.isDegraded),
        scoreSource: verdict !== null ? 'llm' : scored.isDegraded ? 'words' : 'embedding',
        userScore: decided.user,
        agentScore: decided.agent,
        neutral: decided.neutral,
        refusalReading: refusalOf(decided.refusal),
      };
    },
  };
}

/** Vectors of another size come of another model: compared with each other they would score, and score wrong. */
function ofDimensions({ model, embed }: Embedder, dimensions: number): Embedder {
  return {
    model,
    async embed(texts, options) {
      const vectors = await embed(texts, options);
      const wrong = vectors.find(({ length }) => length !== dimensions);
      if (wrong === undefined) return vectors;
      const detail = `The embedding service gave ${wrong.length} dimensions, and ${model} has ${dimensions}.`;
      throw appError('model_response_invalid', { detail });
    },
  };
}

function mayGoByWords({ code, errorClass }: AppError, { byWords }: MeasureOptions): boolean {
  if (byWords === 'where_refused') return code === 'model_rejected' || code === 'context_too_long';
  return byWords === 'always' || errorClass !== 'transient';
}

/** What counts in a round and could be either way. */
function doubtsOf({ user, agent, neutral, refusal }: ScoredRound): Doubts {
  const isDoubtful = (score: number) => score >= doubtful.from && score <= doubtful.to;
  const isRefusalInDoubt = refusal.decidedBy === 'model' && isDoubtful(refusal.score);
  const isClearRefusal = !isRefusalInDoubt && refusalOf(refusal) !== null;
  return {
    user: !neutral && isDoubtful(user),
    agent: !isClearRefusal && isDoubtful(agent),
    refusal: isRefusalInDoubt,
  };
}

function decide(scored: ScoredRound, doubts: Doubts, verdict: Verdict): ScoredRound {
  const decided = (isYes: boolean) => (isYes ? adjudicated.yes : adjudicated.no);
  return {
    ...scored,
    user: doubts.user ? decided(verdict.userOnTopic) : scored.user,
    agent: doubts.agent ? decided(verdict.replyOnTopic) : scored.agent,
    refusal: doubts.refusal ? { ...scored.refusal, score: decided(verdict.declined) } : scored.refusal,
  };
}
