import type { Logger } from 'pino';
import type { Actor } from '#src/domain/access/visibility.ts';
import type { AnchorWords } from '#src/domain/agents/drafts.ts';
import {
  type AnchorFit,
  measureAnchorFit,
  minTextsForAnchorFit,
  type NamedAnchorWord,
  selectBetterAnchorWords,
  textsForAnchorFit,
  weakAnchorFit,
} from '#src/domain/alignment/anchor-fit.ts';
import { topicPhrasesOf } from '#src/domain/alignment/anchor-words.ts';
import { alignmentCalibrationFor } from '#src/domain/alignment/score.ts';
import type { DocumentScope } from '#src/domain/retrieval/document-scope.ts';
import { type TextAnalyzer, undeterminedLanguage } from '#src/domain/text/words.ts';
import type { RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import type { LanguageDetector } from '#src/ports/documents.ts';
import type { Embedder } from '#src/ports/models.ts';
import { findPassagesAboutAgent } from './agent-passages.ts';
import { isAnchorWord } from './anchor-candidates.ts';

/** Publishing waits for the fit at most this long. An ordinary agent takes 0.1 s; only a hanging service takes longer. */
const timeoutMs = 5_000;
/** Number of phrases that are compared as better words, at one embedding each. */
const comparedPhrases = 60;
/** If a search for the agent's subject finds fewer passages than this, recent documents add theirs. */
const wantedPassages = 20;
/** Phrases of several words that occur once are mostly accidental: "pump leaks". */
const minPhraseCount = 2;
const suggestedWeight = 5;
/** Minimum length of the texts whose language is detected: the detector takes "Be brief." for Dutch. */
const minDetectableLength = 100;

export type AgentToTryOut = {
  id: string;
  agentName: string;
  agentPrompt: string;
  tags: readonly string[];
  anchorWords: AnchorWords;
  goldenPrompts: readonly string[];
  documentScope: DocumentScope | null;
  /** Language of the conversations (BCP 47). Without it, the language of the texts is detected. */
  language?: string | undefined;
};

/** A problem of a published agent that its author can solve. */
export type AgentWarning =
  | { code: 'weak_anchor_words'; message: string; suggestedAnchorWords: AnchorWords }
  | { code: 'language_not_supported'; message: string };

/** `fit` is null if it was not measured: too few texts, or a service failed. */
type TryOut = { fit: AnchorFit | null; warnings: AgentWarning[] };

export type AnchorFitService = ReturnType<typeof createAnchorFitService>;

/** Tries an agent's anchor words on texts of its subject, as alignment will score messages about them. */
export function createAnchorFitService(deps: {
  retrieval: Pick<RetrievalService, 'rankChunks' | 'recentPassages'>;
  embedder: Embedder;
  analyze: TextAnalyzer;
  detectLanguage: LanguageDetector;
  logger: Pick<Logger, 'warn'>;
}) {
  const { retrieval, embedder, analyze, detectLanguage, logger } = deps;
  const calibration = alignmentCalibrationFor(embedder.model);

  async function embedded(texts: readonly string[], signal: AbortSignal) {
    const vectors = await embedder.embed(texts, { signal });
    return texts.map((text, index) => ({
      stems: analyze(text).map(({ stem }) => stem),
      vector: vectors[index] ?? new Float32Array(),
    }));
  }

  /** A search alone would miss documents that the persona does not describe, as "our handbook" describes none. */
  async function samplePassages(actor: Actor, agent: AgentToTryOut, signal: AbortSignal) {
    const found = await findPassagesAboutAgent(retrieval, actor, agent, signal);
    if (found.length >= wantedPassages || agent.documentScope !== null) return found;
    const known = new Set(found.map(({ content }) => content));
    const recent = await retrieval.recentPassages(actor);
    return [...found, ...recent.filter(({ content }) => !known.has(content))];
  }

  async function languageWarning(given: string | undefined, texts: readonly string[]): Promise<AgentWarning[]> {
    const sample = texts.join('\n');
    const detected = sample.length < minDetectableLength ? undeterminedLanguage : await detectLanguage(sample);
    const language = given ?? detected;
    if (language === undeterminedLanguage || language.split('-')[0]?.toLowerCase() === 'en') return [];
    const message =
      `Alignment knows only English, and the language of this agent is ${given === undefined ? 'probably ' : ''}` +
      `${language}: its rounds score low and may count as drift even if they are on topic.`;
    return [{ code: 'language_not_supported', message }];
  }

  async function measure(
    agent: AgentToTryOut,
    { texts, passages, signal }: { texts: readonly string[]; passages: readonly string[]; signal: AbortSignal },
  ): Promise<TryOut> {
    const words = Object.keys(agent.anchorWords);
    const vectors = await embedded([...words, ...texts], signal);
    const anchors = vectors
      .slice(0, words.length)
      .map((each, index) => named(each, words[index] ?? '', agent.anchorWords[words[index] ?? '']));
    const tried = vectors.slice(words.length);
    const fit = measureAnchorFit(tried, anchors, calibration);
    if (fit.share >= weakAnchorFit) return { fit, warnings: [] };
    const phrases = topicPhrasesOf([...agent.goldenPrompts, ...passages], analyze, minPhraseCount)
      .map(({ phrase }) => phrase)
      .filter((phrase) => isAnchorWord(phrase) && !/[/'’]/.test(phrase) && !words.includes(phrase))
      .slice(0, comparedPhrases);
    const candidates = (await embedded(phrases, signal)).map((each, index) => named(each, phrases[index] ?? ''));
    const better = selectBetterAnchorWords(tried, anchors, candidates, calibration);
    const improved = [...anchors, ...candidates.filter(({ word }) => better.includes(word))];
    const { share } = measureAnchorFit(tried, improved, calibration);
    const count = (part: number) => Math.round(part * texts.length);
    const problem =
      `With these anchor words, alignment takes ${count(fit.share)} of ${texts.length} texts of the agent's subject ` +
      'for on topic, so that ordinary questions may count as drift.';
    const advice =
      share > fit.share
        ? `With the suggested words it takes ${count(share)}: add them to anchor_words in another version, and publish that.`
        : 'Propose more words with POST /anchor-words/expand.';
    const suggested = share > fit.share ? better : [];
    const suggestedAnchorWords = Object.fromEntries(suggested.map((word) => [word, suggestedWeight]));
    return { fit, warnings: [{ code: 'weak_anchor_words', message: `${problem} ${advice}`, suggestedAnchorWords }] };
  }

  async function tryOut(actor: Actor, agent: AgentToTryOut, signal: AbortSignal): Promise<TryOut> {
    const passages = await samplePassages(actor, agent, signal);
    const texts = textsForAnchorFit({ ...agent, passages }, analyze);
    const warnings = await languageWarning(agent.language, texts);
    if (texts.length < minTextsForAnchorFit) return { fit: null, warnings };
    const contents = passages.map(({ content }) => content);
    const measured = await measure(agent, { texts, passages: contents, signal });
    return { fit: measured.fit, warnings: [...warnings, ...measured.warnings] };
  }

  return {
    /** Never throws: an agent is published whether or not its words can be tried. */
    async tryOut(actor: Actor, agent: AgentToTryOut): Promise<TryOut> {
      const timeout = AbortSignal.timeout(timeoutMs);
      const { promise: expired, reject } = Promise.withResolvers<never>();
      timeout.addEventListener('abort', () => reject(timeout.reason), { once: true });
      try {
        return await Promise.race([tryOut(actor, agent, timeout), expired]);
      } catch (error) {
        logger.warn({ err: error, agentId: agent.id }, 'trying out anchor words failed');
        return { fit: null, warnings: await languageWarning(agent.language, []) };
      }
    },
  };
}

function named(
  text: { stems: readonly string[]; vector: Float32Array },
  word: string,
  weight: number = suggestedWeight,
): NamedAnchorWord {
  return { ...text, word, weight };
}
