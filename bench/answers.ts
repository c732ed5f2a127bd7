// `npm run bench:answers` asks the 60 questions of bench/reading/questions.json about 20 unusual files, through the
// product as `npm start` runs it with the packaged extractive model.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startProduct } from './measured-product.ts';
import { median } from './median.ts';
import { wordsOf } from './reading/likeness.ts';
import { report } from './report.ts';

/** A question about a file, with texts that a right answer has one of; about none of the files if `file` is null. */
type Question = {
  file: string | null;
  question: string;
  answers: string[];
  /** Null for a file whose pages are estimated. */
  page: number | null;
  language: string;
};
type Answer = Question & {
  reply: string;
  isGiven: boolean;
  isRight: boolean;
  /** Whether the first citation names the page of the answer; null without a citation. */
  isCitedRight: boolean | null;
};

const notFound = 'I could not find this in the documents.';
const folder = join(import.meta.dirname, 'reading');
const questions: Question[] = JSON.parse(await readFile(join(folder, 'questions.json'), 'utf8'));
const files = [...new Set(questions.flatMap(({ file }) => file ?? []))];

const product = await startProduct({ CHAT_MODEL: 'extractive-1', RATE_LIMIT_CHAT: 'off' });
const answers: Answer[] = [];
const times: number[] = [];
try {
  const api = await product.signUp();
  const nameOf = new Map<string, string>();
  for (const name of files) {
    const content = new Uint8Array(await readFile(join(folder, 'set', name)));
    const { id, runId } = await product.upload(api, name, content);
    nameOf.set(id, name);
    await product.untilDone(runId);
  }
  const draft = await api.post<{ id: string; head_version_id: string }>('/agent-drafts', {
    agent_name: 'Reader',
    agent_prompt: 'You answer questions from the documents.',
    anchor_words: Object.fromEntries(['document', 'question', 'answer', 'page'].map((word) => [word, 3])),
  });
  const agent = await api.post<{ id: string }>(`/agent-drafts/${draft.id}/publish`, {
    version_id: draft.head_version_id,
  });
  for (const each of questions) {
    const startedAt = performance.now();
    const { reply, citations } = await api.post<{ reply: string; citations: Citation[] }>('/chat', {
      ...{ agent_id: agent.id, message: each.question },
    });
    times.push(performance.now() - startedAt);
    const [first] = citations;
    const isRightFile = first && nameOf.get(first.document_id) === each.file;
    answers.push({
      ...{ ...each, reply, isGiven: !reply.startsWith(notFound) },
      isRight: each.answers.some((answer) => hasWords(firstSentence(reply), answer)),
      isCitedRight: first ? isRightFile === true && (each.page === null || first.page_number === each.page) : null,
    });
  }
} finally {
  await product.stop();
}

const answerable = answers.filter(({ file }) => file !== null);
const others = answers.filter(({ file }) => file === null);
const cited = answerable.filter(({ isGiven, isCitedRight }) => isGiven && isCitedRight !== null);
const percent = (part: readonly unknown[], whole: readonly unknown[]) => (100 * part.length) / whole.length;
const goal = 'answers';
report({
  ...{ goal, what: `${answerable.length} questions: right in the first sentence`, unit: '%', atLeast: 75 },
  rounds: percent(
    answerable.filter(({ isRight }) => isRight),
    answerable,
  ),
});
report({
  ...{ goal, what: 'first citations of these that name the right page', unit: '%', atLeast: 95 },
  rounds: percent(
    cited.filter(({ isCitedRight }) => isCitedRight),
    cited,
  ),
});
report({
  ...{ goal, what: `${others.length} questions that no document answers: answered`, unit: '%', atMost: 5 },
  rounds: percent(
    others.filter(({ isGiven }) => isGiven),
    others,
  ),
});
report({ goal, what: 'time of an answer, p50', unit: 'ms', rounds: median(times), atMost: 300 });
console.log('\n| Language | Right | Of |\n|---|---|---|');
for (const [language, asked] of Map.groupBy(answerable, (answer) => answer.language)) {
  console.log(`| ${language} | ${asked.filter(({ isRight }) => isRight).length} | ${asked.length} |`);
}
console.log('');
for (const { file, question, reply, isRight, isGiven, isCitedRight } of answers) {
  const faults = [
    ...(file === null ? (isGiven ? ['answered'] : []) : isRight ? [] : [isGiven ? 'wrong' : 'not found']),
    ...(file !== null && isGiven && isCitedRight !== true ? ['wrong citation'] : []),
  ];
  if (faults.length > 0) console.log(`- ${faults.join(', ')}: ${question} (${file}): ${reply.slice(0, 160)}`);
}

type Citation = { document_id: string; page_number: number | null };

function firstSentence(reply: string): string {
  return reply.split(/(?<=[.!?])\s|(?<=[。！？])|\n/, 1)[0] ?? '';
}

/** Whether a text has the words of another one, one after the other. */
function hasWords(text: string, wanted: string): boolean {
  return ` ${wordsOf(text).join(' ')} `.includes(` ${wordsOf(wanted).join(' ')} `);
}
