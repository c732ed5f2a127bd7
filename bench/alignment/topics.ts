import { type ClincAgent, readClinc, type Utterance } from '../../scripts/alignment/clinc.ts';
import type { EmbedTexts } from '../../scripts/alignment/embed-texts.ts';
import { fitTopic, type TopicQuality, topicQuality } from '../../scripts/alignment/fitted-topic.ts';
import { sigmoid } from '../../scripts/logistic-regression.ts';
import type { AlignmentCalibration } from '../../src/domain/alignment/score.ts';
import { formatFigure, type Report } from './figures.ts';

export function scoreOf({ semantic, lexical }: Utterance, calibration: AlignmentCalibration): number {
  return sigmoid([calibration.semantic, calibration.lexical, calibration.intercept], [semantic, lexical]);
}

/**
 * CLINC150: measures how well the product separates on-topic from off-topic utterances, compared with simpler methods.
 */
export async function measureTopics(
  embed: EmbedTexts,
  calibration: AlignmentCalibration,
): Promise<{ agents: ClincAgent[]; report: Report }> {
  const { agents } = await readClinc(embed);
  const held = fitTopic(agents, ({ semantic, lexical }) => [semantic, lexical]).quality;
  const shipped = topicQuality(agents.map((agent) => ({ agent, score: (each) => scoreOf(each, calibration) })));
  const words = fitTopic(agents, ({ lexical }) => [lexical]).quality;
  const peer = (pick: (peers: Utterance['peers']) => number) =>
    topicQuality(agents.map((agent) => ({ agent, score: ({ peers }) => pick(peers) })));
  return {
    agents,
    report: {
      title: 'Topics: CLINC150, ten agents, each judged by a fit to the other nine',
      figures: [
        { name: 'mean AUC', value: held.meanAuc, atLeast: 0.945 },
        { name: `AUC of the worst agent (${held.worstAgent})`, value: held.worstAuc, atLeast: 0.9 },
        { name: 'class-balanced calibration error', value: held.calibrationError, atMost: 0.05 },
        { name: 'calibration error of the shipped coefficients', value: shipped.calibrationError, atMost: 0.05 },
        { name: 'on-topic utterances with 0.5 or more', value: held.truePositiveRate },
        { name: 'off-topic utterances with 0.5 or more', value: held.falsePositiveRate },
      ],
      lines: [
        '| | mean AUC | worst agent | against out-of-scope |',
        '|---|---|---|---|',
        line('the score', held),
        line('the score, with the shipped coefficients', shipped),
        line(
          'nearest anchor alone',
          peer(({ nearestAnchor }) => nearestAnchor),
        ),
        line(
          'mean of the anchors',
          peer(({ centroid }) => centroid),
        ),
        line(
          "the agent's persona",
          peer(({ persona }) => persona),
        ),
        line('words alone (embedder away)', words),
      ],
    },
  };
}

function line(name: string, { meanAuc, worstAuc, worstAgent, outOfScopeAuc }: TopicQuality): string {
  return `| ${name} | ${formatFigure(meanAuc)} | ${formatFigure(worstAuc)} (${worstAgent}) | ${formatFigure(outOfScopeAuc)} |`;
}
