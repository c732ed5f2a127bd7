import { anchorWords, type Labelled } from '../../scripts/alignment/clinc.ts';
import type { EmbedTexts } from '../../scripts/alignment/embed-texts.ts';
import { createTextAnalyzer } from '../../src/adapters/text/text-analyzer.ts';
import {
  measureAnchorFit,
  type NamedAnchorWord,
  selectBetterAnchorWords,
  textsForAnchorFit,
  weakAnchorFit,
} from '../../src/domain/alignment/anchor-fit.ts';
import { topicPhrasesOf } from '../../src/domain/alignment/anchor-words.ts';
import {
  alignmentStateAfterRound,
  initialAlignmentState,
  isDriftState,
} from '../../src/domain/alignment/chat-state.ts';
import { type AlignmentCalibration, scoreTextAlignment } from '../../src/domain/alignment/score.ts';
import { readChromaChunking } from '../retrieval/chroma-chunking.ts';
import { readDataset } from '../retrieval/datasets.ts';
import { type Random, seededRandom } from '../search/random.ts';
import { formatFigure, type Report } from './figures.ts';

const analyze = createTextAnalyzer();
const wordCounts = [1, 2, 3, 5, 8, 12, 20, 31];
const drawsOfWords = 8;
const chats = 200;
const rounds = 10;
const thresholds = { offTopic: 3, onTopic: 2 };
const passageLength = 1_600;
const passagesOfSample = 24;
const comparedPhrases = 60;

/** Measures how far the fit of anchor words at publication predicts false drifts, and how much suggested words help. */
export async function measureAnchorWords(embed: EmbedTexts, calibration: AlignmentCalibration): Promise<Report> {
  return {
    title: 'Anchor fit: subsets of the anchor words of CLINC150, and words suggested from documents',
    figures: [{ name: 'fit under which publishing warns', value: weakAnchorFit }],
    lines: [...(await driftsByFit(embed, calibration)), '', ...(await suggestionsFromDocuments(embed, calibration))],
  };
}

async function named(embed: EmbedTexts, words: readonly string[]): Promise<NamedAnchorWord[]> {
  const vectors = await embed(words);
  return words.map((word, index) => ({
    ...{ word, weight: 5, stems: analyze(word).map(({ stem }) => stem) },
    vector: vectors[index] ?? new Float32Array(),
  }));
}

/** Chats of ten questions of an agent's own domain, each answered by a reply that scores like another one. */
async function driftsByFit(embed: EmbedTexts, calibration: AlignmentCalibration): Promise<string[]> {
  const domains: Record<string, string[]> = JSON.parse(readDataset('clinc150', 'domains.json'));
  const { test }: { test: Labelled[] } = JSON.parse(readDataset('clinc150', 'data_full.json'));
  const random = seededRandom(3);
  const measured: { fit: number; drifts: number }[] = [];
  for (const intents of Object.values(domains)) {
    const questions = test.filter(([, intent]) => intents.includes(intent)).map(([text]) => text);
    const texts = await named(embed, questions);
    const words = await named(embed, anchorWords(intents));
    for (const count of wordCounts.flatMap((each) => Array<number>(drawsOfWords).fill(each))) {
      const anchors = shuffled(words, random).slice(0, count);
      const scores = texts.map((text) => scoreTextAlignment(text, anchors, calibration));
      const fit = scores.filter((score) => score >= 0.5).length / scores.length;
      measured.push({ fit, drifts: shareOfDriftingChats(scores, random) });
    }
  }
  const rows = Array.from({ length: 10 }, (_, tenth) => {
    const within = measured.filter(({ fit }) => Math.min(9, Math.floor(fit * 10)) === tenth);
    const drifts = within.reduce((sum, each) => sum + each.drifts, 0) / Math.max(1, within.length);
    return `| ${tenth / 10} to ${(tenth + 1) / 10} | ${within.length} | ${formatFigure(drifts)} |`;
  });
  return ['| Fit | sets of words | chats of ten questions on topic that drift |', '|---|---|---|', ...rows];
}

function shareOfDriftingChats(scores: readonly number[], random: Random): number {
  const draw = () => scores[random.below(scores.length)] ?? 0;
  const drifting = Array.from({ length: chats }).filter(() => {
    let state = initialAlignmentState;
    for (let round = 0; round < rounds; round += 1) {
      const user = draw();
      const agent = Math.max(draw(), 0.8 * user);
      state = alignmentStateAfterRound(state, { user, agent, neutral: false, refusal: false }, thresholds);
      if (isDriftState(state.state)) return true;
    }
    return false;
  });
  return drifting.length / chats;
}

function shuffled<T>(items: readonly T[], random: Random): T[] {
  return items
    .map((item) => ({ item, order: random.next() }))
    .sort((a, b) => a.order - b.order)
    .map(({ item }) => item);
}

async function suggestionsFromDocuments(embed: EmbedTexts, calibration: AlignmentCalibration): Promise<string[]> {
  const { corpora, questions } = readChromaChunking();
  const weak = await named(embed, ['company', 'report', 'study']);
  const rows: string[] = [];
  for (const [corpus, text] of corpora) {
    const passages = samplePassages(corpus, text);
    const agent = { agentPrompt: 'You answer questions about our documents.', goldenPrompts: [], passages };
    const texts = await named(embed, textsForAnchorFit(agent, analyze));
    const asked = await named(
      embed,
      questions.filter((each) => each.corpus === corpus).map((each) => each.text),
    );
    const phrases = topicPhrasesOf(
      passages.map(({ content }) => content),
      analyze,
      2,
    ).slice(0, comparedPhrases);
    const candidates = await named(
      embed,
      phrases.map(({ phrase }) => phrase),
    );
    const better = selectBetterAnchorWords(texts, weak, candidates, calibration);
    const improved = [...weak, ...candidates.filter(({ word }) => better.includes(word))];
    const shares = [weak, improved].flatMap((anchors) =>
      [texts, asked].map((each) => formatFigure(measureAnchorFit(each, anchors, calibration).share)),
    );
    rows.push(`| ${corpus} | ${shares.join(' | ')} |`);
  }
  return [
    '| Documents | company, report, study: fit | questions on topic | with suggested words: fit | questions on topic |',
    '|---|---|---|---|---|',
    ...rows,
  ];
}

function samplePassages(documentId: string, text: string) {
  const count = Math.ceil(text.length / passageLength);
  return Array.from({ length: Math.min(count, passagesOfSample) }, (_, index) => {
    const start = Math.floor(((index + 0.5) * count) / Math.min(count, passagesOfSample)) * passageLength;
    return { documentId, content: text.slice(start, start + passageLength) };
  });
}
