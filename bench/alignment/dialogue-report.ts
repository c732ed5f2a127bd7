import type { EmbedTexts } from '../../scripts/alignment/embed-texts.ts';
import type { AlignmentCalibration } from '../../src/domain/alignment/score.ts';
import { type Agreement, dialogueQuality, type JudgedRound, judgeDialogues } from './dialogue-quality.ts';
import { readDialogues } from './dialogues.ts';
import { type Figure, formatFigure, type Report } from './figures.ts';

/**
 * The dialogues on which the first rules for short messages were chosen; later rules were chosen on all ten agents.
 */
const chosenOn = new Set([
  'Airline customer service',
  'Garden centre',
  'HR benefits assistant',
  'Home cooking coach',
  'Home solar installer',
]);

/** Measures precision and recall of alignment on the labelled dialogues. */
export async function measureDialogues(embed: EmbedTexts, calibration: AlignmentCalibration): Promise<Report> {
  const known = await judgeDialogues(readDialogues('dialogues'), embed, calibration);
  const heldOut = await judgeDialogues(readDialogues('held-out-dialogues'), embed, calibration);
  const isChosenOn = ({ agent }: JudgedRound) => chosenOn.has(agent);
  return {
    title: `Dialogues: 60 of ten agents, ${known.length} labelled rounds; 30 of five others, held out, ${heldOut.length}`,
    figures: [
      { ...meanOf('precision', known), atLeast: 0.85 },
      { ...meanOf('recall', known), atLeast: 0.85 },
      { name: 'the lowest of these eight figures', value: lowest(known), atLeast: 0.8 },
      // Held-out dialogues have no gates, so that no rule or threshold is tuned on them.
      { ...meanOf('precision', heldOut), name: 'held out: precision' },
      { ...meanOf('recall', heldOut), name: 'held out: recall' },
    ],
    lines: [
      ...table('held out: thirty dialogues of five agents', heldOut),
      '',
      ...table('the sixty', known),
      '',
      ...table('of them the five agents on which the rules for short turns were chosen', known.filter(isChosenOn)),
      '',
      ...table(
        'of them the other five',
        known.filter((round) => !isChosenOn(round)),
      ),
    ],
  };
}

const topics = ['userOn', 'userOff', 'agentOn', 'agentOff'] as const;

/** Averages over the four questions, so that a rare answer counts as much as a frequent one. */
function meanOf(measure: 'precision' | 'recall', judged: readonly JudgedRound[]): Figure {
  const quality = dialogueQuality(judged);
  const sum = topics.reduce((sum, topic) => sum + quality[topic][measure], 0);
  return { name: `${measure} of on and off, users and agents`, value: sum / topics.length };
}

function lowest(judged: readonly JudgedRound[]): number {
  const quality = dialogueQuality(judged);
  return Math.min(...topics.flatMap((topic) => [quality[topic].precision, quality[topic].recall]));
}

function table(title: string, judged: readonly JudgedRound[]): string[] {
  const quality = dialogueQuality(judged);
  const row = (name: string, { asked, precision, recall, f1 }: Agreement) =>
    `| ${[name, asked, formatFigure(precision), formatFigure(recall), formatFigure(f1)].join(' | ')} |`;
  return [
    `| ${title} | rounds | precision | recall | F1 |`,
    '|---|---|---|---|---|',
    row('user on topic', quality.userOn),
    row('user off topic', quality.userOff),
    row('agent on topic', quality.agentOn),
    row('agent off topic', quality.agentOff),
    row('refusal', quality.refusal),
    row('drift', quality.drift),
  ];
}
