// `npm run demo [-- --fast --model --ask "question" … file …]`: ingests files and asks questions through the public
// API, then keeps serving. Lines that are piped into it are asked, too; then it ends.
import { access } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';
import { anchorWordsOf } from './demo/anchor-words.ts';
import { type ApiClient, createApiClient } from './demo/api-client.ts';
import { chooseChatModel } from './demo/choose-chat-model.ts';
import { signIn } from './demo/demo-account.ts';
import { createNarrator, type Narrator } from './demo/narrator.ts';
import { type PipedQuestions, readPipedQuestions } from './demo/questions.ts';
import { makeSampleDocuments } from './demo/sample-documents.ts';
import { type Agent, askQuestion, ingest, listSearchable, publishAgent } from './demo/story.ts';
import { type EmbeddedAddresses, readyText, startEmbedded } from './embedded-mode.ts';
import { readStartSettings } from './settings.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';
import { StartFailure } from './supervisor/start-failure.ts';

const SAMPLE_QUESTIONS = [
  'Which activities does the ingestion workflow run?',
  'What helps when a run failed with encrypted_document?',
  'At which value does the trend of a chat start?',
];

/** Maximum number of documents whose words the agent's anchor words are chosen from: the newest. */
const MAX_ANCHORED = 20;

/** Asks a question in the chat of this run and prints the answer. */
type Ask = (text: string) => Promise<void>;

await exitAfter(async () => {
  const { values, positionals } = parseArgs({
    options: {
      ask: { type: 'string', multiple: true, default: [] },
      fast: { type: 'boolean', default: false },
      model: { type: 'boolean', default: false },
    },
    allowPositionals: true,
  });
  await checkReadable(positionals);
  const piped = process.stdin.isTTY ? null : readPipedQuestions(process.stdin);
  const narrator = createNarrator(process.stdout);
  const given = readStartSettings(process.env);
  const settings = {
    ...given,
    chatModel: await chooseChatModel(given, { fast: values.fast, fetch: values.model, narrator }),
  };
  return runUntilStopped({
    dataDir: settings.dataDir,
    log: (line) => console.error(line),
    work: async (supervisor, _ending, serves) => {
      const addresses = await startEmbedded(settings, supervisor, narrator.line);
      narrator.note(`ready after ${(performance.now() / 1000).toFixed(1)} s`);
      const { dataDir } = settings;
      const ask = await tell({ narrator, addresses, dataDir, files: positionals, questions: values.ask, piped });
      serves();
      // With piped questions the demo ends after the last one.
      if (!piped?.hadLines()) narrator.line(readyText('keeps running', settings, addresses));
      if (ask !== null && piped === null) void converse(ask);
      if (ask !== null && piped !== null && (await answerPiped(piped, ask))) return 0;
      return supervisor.failed;
    },
  });
});

async function checkReadable(files: string[]): Promise<void> {
  for (const file of files) {
    await access(file).catch(() => {
      throw new StartFailure(`There is no readable file at ${file}.`);
    });
  }
}

async function tell(options: {
  narrator: Narrator;
  addresses: EmbeddedAddresses;
  dataDir: string;
  files: string[];
  questions: string[];
  piped: PipedQuestions | null;
}): Promise<Ask | null> {
  const { narrator, addresses, dataDir } = options;
  const samples = options.files.length === 0;
  const files = samples ? await makeSampleDocuments(path.join(dataDir, 'demo')) : options.files;
  const accountFile = path.join(dataDir, 'demo-account.json');
  const { api, email } = await signIn(createApiClient(addresses.apiUrl), accountFile);

  narrator.heading(`Documents (${files.length})`);
  const earlier = await listSearchable(api);
  const ingested = new Set<string | null>();
  for (const file of files) ingested.add(await ingest(api, file, earlier, narrator));
  const documents = await listSearchable(api);
  if (documents.length === 0) {
    narrator.note('No document was ingested, so there is nothing to ask about.');
    return null;
  }
  const others = documents.filter(({ id }) => !ingested.has(id)).length;
  if (others > 0) narrator.note(`and ${others} of earlier runs, which the agent reads, too`);

  narrator.heading('Agent');
  const agent = await publishGuide(
    api,
    documents.slice(0, MAX_ANCHORED).map(({ id }) => id),
  );
  narrator.note(`${agent.agent_name}, published from a draft as ${agent.id}`);
  if (agent.anchor_fit != null)
    narrator.note(`alignment takes ${Math.round(100 * agent.anchor_fit)} % of sample texts for on topic`);
  for (const { message } of agent.warnings ?? []) narrator.note(message);

  narrator.heading('Questions');
  const fallback = samples ? SAMPLE_QUESTIONS : ['What is this document about?'];
  const given = [...options.questions, ...(options.piped?.takeAll() ?? [])];
  let chatId: string | null = null;
  const ask: Ask = async (text) => {
    chatId = await askAndGoOn(api, narrator, { text, agentId: agent.id, chatId });
  };
  for (const text of given.length > 0 ? given : fallback) await ask(text);
  narrator.heading('Sign in');
  narrator.line(`  POST /auth/login with the username ${email}; the password is in ${path.relative('.', accountFile)}`);
  return ask;
}

async function publishGuide(api: ApiClient, documentIds: string[]): Promise<Agent> {
  const contents = await Promise.all(
    documentIds.map(async (id) => (await api.get<{ content: string }>(`/documents/${id}`)).content),
  );
  return publishAgent(api, 'Document guide', anchorWordsOf(contents));
}

/** Asks the piped lines until the input ends. Returns whether there was one. */
async function answerPiped(piped: PipedQuestions, ask: Ask): Promise<boolean> {
  for (let text = await piped.next(); text !== null; text = await piped.next()) await ask(text);
  return piped.hadLines();
}

async function converse(ask: Ask): Promise<never> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  terminal.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  for (;;) {
    const text = (await terminal.question('\nAsk something: ')).trim();
    if (text === '') continue;
    await ask(text);
  }
}

async function askAndGoOn(...[api, narrator, question]: Parameters<typeof askQuestion>): Promise<string | null> {
  try {
    return await askQuestion(api, narrator, question);
  } catch (error) {
    narrator.note(`the question failed: ${error instanceof Error ? error.message : String(error)}`);
    return question.chatId;
  }
}
