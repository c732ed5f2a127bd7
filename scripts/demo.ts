// `npm run demo [-- --fast --model --ask "question" … file …]`: ingests files and asks questions through the public
// API, then keeps serving.
import { access } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';
import { anchorWordsOf } from './demo/anchor-words.ts';
import { type ApiClient, createApiClient } from './demo/api-client.ts';
import { chooseChatModel } from './demo/choose-chat-model.ts';
import { signIn } from './demo/demo-account.ts';
import { createNarrator, type Narrator } from './demo/narrator.ts';
import { makeSampleDocuments } from './demo/sample-documents.ts';
import { type Agent, askQuestion, ingest, publishAgent } from './demo/story.ts';
import { type EmbeddedAddresses, readyText, startEmbedded } from './embedded-mode.ts';
import { readStartSettings } from './settings.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';
import { StartFailure } from './supervisor/start-failure.ts';

const SAMPLE_QUESTIONS = [
  'Which activities does the ingestion workflow run?',
  'What helps when a run failed with encrypted_document?',
  'At which value does the trend of a chat start?',
];

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
      const goOn = await tell({ narrator, addresses, dataDir, files: positionals, questions: values.ask });
      serves();
      narrator.line(readyText('keeps running', settings, addresses));
      if (process.stdin.isTTY && goOn !== null) void goOn();
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
}): Promise<(() => Promise<never>) | null> {
  const { narrator, addresses, dataDir } = options;
  const samples = options.files.length === 0;
  const files = samples ? await makeSampleDocuments(path.join(dataDir, 'demo')) : options.files;
  const accountFile = path.join(dataDir, 'demo-account.json');
  const { api, email } = await signIn(createApiClient(addresses.apiUrl), accountFile);

  narrator.heading(`Documents (${files.length})`);
  const documentIds: string[] = [];
  for (const file of files) {
    const id = await ingest(api, file, narrator);
    if (id !== null) documentIds.push(id);
  }

  if (documentIds.length === 0) {
    narrator.note('No document was ingested, so there is nothing to ask about.');
    return null;
  }

  narrator.heading('Agent');
  const agent = await publishGuide(api, documentIds);
  narrator.note(`${agent.agent_name}, published from a draft as ${agent.id}`);

  narrator.heading('Questions');
  const fallback = samples ? SAMPLE_QUESTIONS : ['What is this document about?'];
  const questions = options.questions.length > 0 ? options.questions : fallback;
  let chatId: string | null = null;
  for (const text of questions) {
    chatId = await askAndGoOn(api, narrator, { text, agentId: agent.id, chatId, documentIds });
  }
  narrator.heading('Sign in');
  narrator.line(`  POST /auth/login with the username ${email}; the password is in ${path.relative('.', accountFile)}`);
  const chat = chatId;
  return chat === null ? null : () => converse(api, narrator, agent, chat, documentIds);
}

async function publishGuide(api: ApiClient, documentIds: string[]): Promise<Agent> {
  const contents = await Promise.all(
    documentIds.map(async (id) => (await api.get<{ content: string }>(`/documents/${id}`)).content),
  );
  return publishAgent(api, 'Document guide', anchorWordsOf(contents));
}

async function converse(
  api: ApiClient,
  narrator: Narrator,
  agent: Agent,
  chatId: string,
  documentIds: string[],
): Promise<never> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  terminal.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  for (;;) {
    const text = (await terminal.question('\nAsk something: ')).trim();
    if (text === '') continue;
    await askAndGoOn(api, narrator, { text, agentId: agent.id, chatId, documentIds });
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
