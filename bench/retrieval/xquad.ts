import { readDataset } from './datasets.ts';

export type Paragraph = { text: string; questions: { text: string; answers: string[] }[] };

type Article = { paragraphs: { context: string; qas: { question: string; answers: { text: string }[] }[] }[] };

/** Reads the paragraphs of XQuAD in a language, each with the questions that it answers. */
export function readXquad(language: string): Paragraph[] {
  const { data }: { data: Article[] } = JSON.parse(readDataset('xquad', `xquad.${language}.json`));
  return data
    .flatMap(({ paragraphs }) => paragraphs)
    .map(({ context, qas }) => ({
      text: context,
      questions: qas.map(({ question, answers }) => ({ text: question, answers: answers.map(({ text }) => text) })),
    }));
}
