import type { EmbedTexts } from '../../scripts/alignment/embed-texts.ts';
import { createTextAnalyzer } from '../../src/adapters/text/text-analyzer.ts';
import {
  type AlignmentState,
  alignmentStateAfterRound,
  initialAlignmentState,
  isDriftState,
} from '../../src/domain/alignment/chat-state.ts';
import { createRefusalDetector, nullUnlessLikelyRefusal } from '../../src/domain/alignment/refusal.ts';
import { roundTextsToEmbed, type ScoredRound, scoreRound } from '../../src/domain/alignment/round.ts';
import type { AlignmentCalibration, StemmedAnchorWord } from '../../src/domain/alignment/score.ts';
import type { Dialogue, LabelledRound } from './dialogues.ts';

export type JudgedRound = {
  agent: string;
  script: string;
  label: LabelledRound;
  scores: ScoredRound;
  isRefusal: boolean;
  state: AlignmentState;
};

const analyze = createTextAnalyzer();
const thresholds = { offTopic: 3, onTopic: 2 };

export async function judgeDialogues(
  dialogues: readonly Dialogue[],
  embed: EmbedTexts,
  calibration: AlignmentCalibration,
): Promise<JudgedRound[]> {
  const anchors = new Map<string, StemmedAnchorWord[]>();
  const readRefusal = createRefusalDetector(analyze, calibration.modelId);
  const judged: JudgedRound[] = [];
  for (const { agent, script, rounds } of dialogues) {
    const known = anchors.get(agent.name) ?? (await embedAnchors(agent.anchors, embed));
    anchors.set(agent.name, known);
    let state = initialAlignmentState;
    let before: { user: string; reply: string | null } | null = null;
    for (const label of rounds) {
      const texts = {
        user: label.user,
        agent: label.agent,
        previousUser: before?.user ?? null,
        previousReply: before?.reply ?? null,
      };
      const wanted = roundTextsToEmbed(texts, analyze);
      const vectors = await embed(wanted);
      const vectorOf = (text: string) => vectors[wanted.indexOf(text)] ?? null;
      const scores = scoreRound(texts, known, { vectorOf, analyze, calibration, readRefusal });
      const isRefusal = nullUnlessLikelyRefusal(scores.refusal) !== null;
      state = alignmentStateAfterRound(state, { ...scores, refusal: isRefusal }, thresholds);
      judged.push({ agent: agent.name, script, label, scores, isRefusal, state });
      before = { user: label.user, reply: isRefusal ? null : label.agent };
    }
  }
  return judged;
}

async function embedAnchors(words: Record<string, number>, embed: EmbedTexts): Promise<StemmedAnchorWord[]> {
  const vectors = await embed(Object.keys(words));
  return Object.entries(words).map(([word, weight], i) => ({
    stems: analyze(word).map((term) => term.stem),
    weight,
    vector: vectors[i] ?? null,
  }));
}

/** Precision and recall of the product on a yes-or-no question about `asked` rounds. */
export type Agreement = { asked: number; precision: number; recall: number; f1: number };

type Question = { isTrue: (round: JudgedRound) => boolean; isCalled: (round: JudgedRound) => boolean };

const isUserOff = ({ scores, state }: JudgedRound) => !scores.neutral && state.userLabel === 'off';
const isAgentOff = ({ isRefusal, state }: JudgedRound) => !isRefusal && state.agentLabel === 'off';

/** Measures how far the product agrees with the labels; rounds labelled neutral are left out. */
export function dialogueQuality(judged: readonly JudgedRound[]) {
  const users = judged.filter(({ label }) => label.userTopic !== 'neutral');
  const agents = judged.filter(({ label }) => label.agentTopic === 'on' || label.agentTopic === 'off');
  const userIs = (topic: 'on' | 'off'): Question => ({
    isTrue: ({ label }) => label.userTopic === topic,
    isCalled: (round) => isUserOff(round) === (topic === 'off'),
  });
  const agentIs = (topic: 'on' | 'off'): Question => ({
    isTrue: ({ label }) => label.agentTopic === topic,
    isCalled: (round) => isAgentOff(round) === (topic === 'off'),
  });
  return {
    userOn: agreement(users, userIs('on')),
    userOff: agreement(users, userIs('off')),
    agentOn: agreement(agents, agentIs('on')),
    agentOff: agreement(agents, agentIs('off')),
    refusal: agreement(judged, {
      isTrue: ({ label }) => label.agentTopic === 'refusal',
      isCalled: ({ isRefusal }) => isRefusal,
    }),
    drift: agreement(judged, {
      isTrue: ({ label }) => label.drift,
      isCalled: ({ state }) => isDriftState(state.state),
    }),
  };
}

function agreement(judged: readonly JudgedRound[], { isTrue, isCalled }: Question): Agreement {
  const called = judged.filter(isCalled);
  const right = called.filter(isTrue).length;
  const asked = judged.filter(isTrue).length;
  const precision = right / called.length;
  const recall = right / asked;
  return { asked, precision, recall, f1: (2 * precision * recall) / (precision + recall) };
}
