import { readDataset } from './datasets.ts';

export type Paragraph = { text: string; questions: { text: string; answers: string[] }[] };

type Article = { paragraphs: { context: string; qas: { question: string; answers: { text: string }[] }[] }[] };

/**
 * Reads XQuAD in one language: 240 paragraphs with 1,190 questions, each about one paragraph (Artetxe, Ruder and
 * Yogatama 2020).
 */
export function readXquad(language: string): Paragraph[] {
  const { data }: { data: Article[] } = JSON.parse(readDataset('xquad', `xquad.${language}.json`));
  return data
    .flatMap(({ paragraphs }) => paragraphs)
    .map(({ context, qas }) => ({
      text: context,
      questions: qas.map(({ question, answers }) => ({ text: question, answers: answers.map(({ text }) => text) })),
    }));
}

export const xquadLanguages = ['es', 'ru', 'vi', 'th'] as const;

export type XquadCollection = {
  paragraphs: { id: string; text: string }[];
  questions: { text: string; relevant: ReadonlySet<string> }[];
};

/** Removes format characters and repeated spaces, as the converter does. */
const onOneLine = (text: string) =>
  text
    .replaceAll(/\p{Cf}/gu, '')
    .replaceAll(/\s+/g, ' ')
    .trim();

/** Reads XQuAD in one language as passages and the questions that each answers. */
export function readXquadCollection(language: (typeof xquadLanguages)[number]): XquadCollection {
  const all = readXquad(language);
  return {
    paragraphs: all.map(({ text }, index) => ({ id: `${language} ${index}`, text: onOneLine(text) })),
    questions: all.flatMap(({ questions }, index) =>
      questions.map(({ text }) => ({ text, relevant: new Set([`${language} ${index}`]) })),
    ),
  };
}
