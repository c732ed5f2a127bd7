// `npm run bench:spotlight [-- --base-url http://127.0.0.1:8080/v1 --model ID --questions 50]`: what the three modes of
// `SPOTLIGHT` cost in tokens of the prompt, and, if a chat model is named, how many questions it answers in each.
import { parseArgs } from 'node:util';
import { encode } from 'gpt-tokenizer/encoding/o200k_base';
import { createTextAnalyzer } from '../src/adapters/text/text-analyzer.ts';
import { createTokenCounter } from '../src/adapters/text/token-counter.ts';
import {
  containsModelInstructions,
  formatPassageBlocks,
  type Passage,
  passageBlockRules,
  type Spotlight,
  spotlights,
} from '../src/domain/chat/context-blocks.ts';
import { selectChunksForPrompt } from '../src/domain/chat/context-window.ts';
import { chunkByTokens } from '../src/domain/documents/chunking.ts';
import { bm25TermScore } from '../src/domain/retrieval/bm25.ts';
import { median } from './median.ts';
import { report } from './report.ts';
import { readChromaChunking } from './retrieval/chroma-chunking.ts';
import { readXquad } from './retrieval/xquad.ts';

const { values } = parseArgs({
  options: { 'base-url': { type: 'string' }, model: { type: 'string' }, questions: { type: 'string' } },
});
const questionCount = Number(values.questions ?? 200);

type Source = { name: string; text: string };
/** `answers` are the texts of which a right reply contains one; empty if the set has none. */
type Question = { text: string; answers: string[] };
type DataSet = { name: string; sources: Source[]; questions: Question[] };

const nonce = 'k3y8k3y8k3y8k3y8';
const chunking = { method: 'token', targetTokens: 400, overlapTokens: 60 } as const;
const plainText = { allowedSpecial: new Set<string>(), disallowedSpecial: new Set<string>() };
const tokens = createTokenCounter();
const analyze = createTextAnalyzer();

console.log('| Data set | Passages | Flagged | Tokens of `off` | `flagged` | `all` |\n|---|---|---|---|---|---|');
const answered: string[] = [];
for (const dataSet of [chroma(), xquad('es'), xquad('ru')]) {
  const asked = sample(dataSet.questions).map((question) => ({ ...question, passages: [] as Passage[] }));
  const rank = createRanking(dataSet.sources);
  for (const question of asked) question.passages = rank(question.text);
  const passages = asked.flatMap((question) => question.passages);
  const flagged = passages.filter(({ addressesModel }) => addressesModel).length;
  const costs = spotlights.map((spotlight) => [
    spotlight,
    asked.map((question) => encode(systemMessage(question.passages, spotlight), plainText).length),
  ]);
  const { off = [], flagged: some = [], all = [] } = Object.fromEntries(costs) as Record<Spotlight, number[]>;
  const ratios = (costly: number[]) => costly.map((count, index) => count / (off[index] ?? Number.NaN));
  const ratio = (costly: number[]) => median(ratios(costly));
  report({
    ...{ goal: 'P16', what: `prompt with passages by default, ${dataSet.name}`, unit: 'tokens', rounds: some },
    ...{ peer: 'the same without datamarking', ratios: ratio(some), atMost: 1.05 },
  });
  console.log(
    `| ${dataSet.name}, ${asked.length} questions | ${passages.length} | ${flagged} | ${median(off)} | ` +
      `${ratio(some).toFixed(2)} | ${ratio(all).toFixed(2)} |`,
  );
  if (values.model !== undefined && asked.some(({ answers }) => answers.length > 0)) {
    for (const spotlight of spotlights) {
      let right = 0;
      for (const { text, answers, passages: given } of asked) {
        const reply = normalized(await ask(systemMessage(given, spotlight), text));
        if (answers.some((answer) => reply.includes(normalized(answer)))) right += 1;
      }
      answered.push(`${dataSet.name}, ${values.model}, ${spotlight}: ${right} of ${asked.length} answered`);
    }
  }
}
console.log(['', ...answered].join('\n'));

function chroma(): DataSet {
  const { corpora, questions } = readChromaChunking();
  return {
    name: 'Chroma, English',
    sources: Array.from(corpora, ([name, text]) => ({ name, text })),
    questions: questions.map(({ text }) => ({ text, answers: [] })),
  };
}

function xquad(language: string): DataSet {
  const paragraphs = readXquad(language);
  return {
    name: `XQuAD, ${language}`,
    sources: paragraphs.map(({ text }, index) => ({ name: `Paragraph ${index + 1}`, text })),
    questions: paragraphs.flatMap(({ questions }) => questions),
  };
}

/** Questions at equal distances, so that all documents are asked about. */
function sample(questions: readonly Question[]): Question[] {
  const count = Math.min(questionCount, questions.length);
  return Array.from({ length: count }, (_, index) => questions[Math.floor((index * questions.length) / count)]).filter(
    (question) => question !== undefined,
  );
}

/** Ranks chunks by words (BM25), and selects those for the prompt as a chat does. */
function createRanking(sources: readonly Source[]): (question: string) => Passage[] {
  const chunks = sources.flatMap(({ name, text }) =>
    chunkByTokens(text, chunking, { tokens }).map(({ content }) => {
      const words = termCounts(content);
      const length = [...words.values()].reduce((total, count) => total + count, 0);
      return { name, content, words, length, tokenCount: tokens.count(content) };
    }),
  );
  const averageLength = chunks.reduce((total, { length }) => total + length, 0) / chunks.length;
  const frequency = new Map<string, number>();
  for (const { words } of chunks) for (const word of words.keys()) frequency.set(word, (frequency.get(word) ?? 0) + 1);
  return (question) => {
    const wanted = [...termCounts(question).keys()];
    const scored = chunks.map((chunk) => {
      const scores = wanted.map((word) => {
        const inChunk = chunk.words.get(word) ?? 0;
        return bm25TermScore(inChunk, frequency.get(word) ?? 0, chunks.length, chunk.length, averageLength);
      });
      return { ...chunk, score: scores.reduce((total, score) => total + score, 0) };
    });
    const ranked = scored.toSorted((a, b) => b.score - a.score);
    return selectChunksForPrompt(ranked).map(({ name, content }, index) => ({
      number: index + 1,
      documentName: name,
      pageNumber: 1,
      text: content,
      addressesModel: containsModelInstructions(content) || containsModelInstructions(name),
    }));
  };
}

function termCounts(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { stem } of analyze(text)) counts.set(stem, (counts.get(stem) ?? 0) + 1);
  return counts;
}

function systemMessage(passages: readonly Passage[], spotlight: Spotlight): string {
  const rules = passageBlockRules(nonce, spotlight);
  return [rules.before, formatPassageBlocks(passages, nonce, spotlight), rules.after].join('\n\n');
}

async function ask(system: string, question: string): Promise<string> {
  const response = await fetch(`${values['base-url']}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${process.env.CHAT_API_KEY ?? 'none'}` },
    body: JSON.stringify({
      model: values.model,
      temperature: 0,
      max_tokens: 100,
      messages: [
        { role: 'system', content: system },
        { role: 'user', content: question },
      ],
    }),
  });
  if (!response.ok) throw new Error(`The chat model answered ${response.status}: ${await response.text()}`);
  return Object(await response.json()).choices[0].message.content;
}

function normalized(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .toLowerCase()
    .trim();
}
