import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import {
  cosineSimilarity,
  lexicalMatchWithAnchorWords,
  type StemmedAnchorWord,
  semanticMatchWithAnchorWords,
} from '#src/domain/alignment/score.ts';
import { type DatasetFile, readDatasetFile } from './dataset-file.ts';
import type { EmbedTexts } from './embed-texts.ts';

/**
 * An utterance with the features that alignment scores it by for one agent. `peers` has the features of simpler scores
 * to compare with.
 */
export type Utterance = {
  semantic: number;
  lexical: number;
  isPositive: boolean;
  isOutOfScope: boolean;
  /** Cosine similarities to the nearest anchor, to the centroid of all anchors, and to the persona. */
  peers: { nearestAnchor: number; centroid: number; persona: number };
};

export type ClincAgent = { name: string; anchors: number; utterances: Utterance[] };

export type Labelled = [text: string, intent: string];

const attribution = 'CLINC150 (clinc/oos-eval), CC BY 3.0';
const analyze = createTextAnalyzer();
const stemsOf = (text: string) => analyze(text).map((term) => term.stem);

/**
 * CLINC150 (Larson et al. 2019): ten domains as ten agents. An agent's anchors come from the names of its intents only;
 * its positives are the test utterances of its domain, its negatives those of the nine others and the out-of-scope ones.
 */
export async function readClinc(
  embed: EmbedTexts,
): Promise<{ agents: ClincAgent[]; sources: DatasetFile['record'][] }> {
  const domainsFile = readDatasetFile('clinc150/domains.json', attribution);
  const dataFile = readDatasetFile('clinc150/data_full.json', attribution);
  const domains: Record<string, string[]> = JSON.parse(domainsFile.text);
  const data: { test: Labelled[]; oos_test: Labelled[] } = JSON.parse(dataFile.text);
  const texts = [...data.test, ...data.oos_test].map(([text, intent]) => ({ text, intent, stems: stemsOf(text) }));
  const vectors = await embed(texts.map(({ text }) => text));

  const agents: ClincAgent[] = [];
  for (const [name, intents] of Object.entries(domains)) {
    const words = anchorWords(intents);
    const anchorVectors = await embed(words);
    const anchors: StemmedAnchorWord[] = words.map((word, i) => ({
      stems: stemsOf(word),
      weight: 5,
      vector: anchorVectors[i] ?? null,
    }));
    const centroid = sumOf(anchorVectors);
    const [persona = new Float32Array()] = await embed([personaOf(name, intents)]);
    const utterances = texts.map(({ intent, stems }, i): Utterance => {
      const vector = vectors[i] ?? new Float32Array();
      return {
        semantic: semanticMatchWithAnchorWords(vector, anchors) ?? 0,
        lexical: lexicalMatchWithAnchorWords(stems, anchors),
        isPositive: intents.includes(intent),
        isOutOfScope: intent === 'oos',
        peers: {
          nearestAnchor: Math.max(...anchorVectors.map((anchor) => cosineSimilarity(vector, anchor))),
          centroid: cosineSimilarity(vector, centroid),
          persona: cosineSimilarity(vector, persona),
        },
      };
    });
    agents.push({ name, anchors: anchors.length, utterances });
  }
  return { agents, sources: [domainsFile.record, dataFile.record] };
}

export function anchorWords(intents: readonly string[]): string[] {
  const names = intents.map((intent) => intent.replaceAll('_', ' '));
  const phrases = names.filter((name) => name.split(' ').length <= 3);
  const words = names.flatMap((name) =>
    name.split(' ').filter((word) => analyze(word).some((term) => !term.isStopWord)),
  );
  return [...new Map([...phrases, ...words].map((word) => [stemsOf(word).join(' '), word])).values()];
}

function personaOf(domain: string, intents: readonly string[]): string {
  const topics = intents.map((intent) => intent.replaceAll('_', ' ')).join(', ');
  return `You are an assistant for ${domain.replaceAll('_', ' ')}. You help with: ${topics}.`;
}

function sumOf(vectors: readonly Float32Array[]): Float32Array {
  const [first = new Float32Array()] = vectors;
  return first.map((_, i) => vectors.reduce((sum, vector) => sum + (vector[i] ?? 0), 0));
}
