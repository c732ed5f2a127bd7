import { readDataset } from '../retrieval/datasets.ts';

/** Two answers to one instruction; `better` is the index of the answer that human annotators prefer. */
export type LabelledPair = { set: string; id: string; input: string; outputs: [string, string]; better: 0 | 1 };

type LlmBarItem = { input: string; output_1: string; output_2: string; label: 1 | 2 };

/** LLMBar (MIT, princeton-nlp/LLMBar 900616b). In the adversarial sets the worse answer looks better. */
const sets = ['Natural', 'Adversarial__GPTInst', 'Adversarial__GPTOut', 'Adversarial__Manual', 'Adversarial__Neighbor'];

/** Samples `count` pairs, equally many of each set and evenly spaced, so that every run has the same pairs. */
export function samplePairs(count: number): LabelledPair[] {
  return sets.flatMap((set, index) => {
    const all: LlmBarItem[] = JSON.parse(readDataset('llmbar', `LLMBar__${set}.json`));
    const wanted = Math.min(all.length, Math.floor((count + index) / sets.length));
    return Array.from({ length: wanted }, (_, place) => {
      const position = Math.floor((place * all.length) / wanted);
      const item = all[position];
      if (item === undefined) throw new Error(`The LLMBar set ${set} has no item ${position}.`);
      const { input, output_1, output_2, label } = item;
      return { set, id: `${set} ${position}`, input, outputs: [output_1, output_2], better: label === 1 ? 0 : 1 };
    });
  });
}
