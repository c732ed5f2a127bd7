import type { AlignmentCalibration } from '#src/domain/alignment-calibration.ts';
import type { EmbedTexts } from '../../scripts/alignment/embed-texts.ts';
import { type Agreement, dialogueQuality, type JudgedRound, judgeDialogues } from './dialogue-quality.ts';
import { readDialogues } from './dialogues.ts';
import { type Report, written } from './figures.ts';

/** Of these the rules were chosen that read a short turn in its place; the other five agents were left out of that. */
const chosenOn = new Set([
  'Airline customer service',
  'Garden centre',
  'HR benefits assistant',
  'Home cooking coach',
  'Home solar installer',
]);

/** The sixty labelled dialogues: precision and recall of what people see in them. */
export async function measureDialogues(embed: EmbedTexts, calibration: AlignmentCalibration): Promise<Report> {
  const judged = await judgeDialogues(readDialogues(), embed, calibration);
  const heldOut = judged.filter(({ agent }) => !chosenOn.has(agent));
  const all = dialogueQuality(judged);
  return {
    title: `Dialogues: 60 of ten agents, ${judged.length} labelled rounds`,
    figures: [
      { name: 'precision of on and off, users and agents', value: ofTopics(all, 'precision'), atLeast: 0.85 },
      { name: 'recall of on and off, users and agents', value: ofTopics(all, 'recall'), atLeast: 0.85 },
    ],
    lines: [
      ...table('all', judged),
      '',
      ...table(
        'the five agents on which the rules for short turns were chosen',
        judged.filter(({ agent }) => chosenOn.has(agent)),
      ),
      '',
      ...table('the five agents that were held out', heldOut),
    ],
  };
}

/** The mean over the four questions, so that the rarer answer counts as much. */
function ofTopics(quality: ReturnType<typeof dialogueQuality>, measure: 'precision' | 'recall'): number {
  const { userOn, userOff, agentOn, agentOff } = quality;
  return [userOn, userOff, agentOn, agentOff].reduce((sum, each) => sum + each[measure], 0) / 4;
}

function table(title: string, judged: readonly JudgedRound[]): string[] {
  const quality = dialogueQuality(judged);
  const row = (name: string, { asked, precision, recall, f1 }: Agreement) =>
    `| ${[name, asked, written(precision), written(recall), written(f1)].join(' | ')} |`;
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
