import { totalmem } from 'node:os';
import { isInstalled } from '../../services/model-server/model-files.ts';
import { extractive, qwenCoder } from '../../services/model-server/model-manifest.ts';
import { fetchModel } from '../models/fetch-model.ts';
import { createProgressBar } from '../models/progress-bar.ts';
import type { StartSettings } from '../settings.ts';
import type { Narrator } from './narrator.ts';

/** The language model takes 2.2 GB of memory; Postgres, Temporal, the API and the worker take 0.9 GB. */
const MIN_MEMORY_BYTES = 4 * 1024 ** 3;
const HOW_TO_FETCH = 'until `npm run demo -- --model` fetches a language model (1.1 GB)';
const PLATFORMS_WITH_A_BUILD = ['linux-x64', 'linux-arm64'];

/**
 * Chooses the model that answers the demo's questions if there is no provider: the language model if it is installed or
 * `--model` requests it, otherwise the extractive answerer. Without `--model` the demo does not start a download of 1.1
 * GB.
 */
export async function chooseChatModel(
  settings: StartSettings,
  { fast, fetch, narrator }: { fast: boolean; fetch: boolean; narrator: Narrator },
): Promise<string | null> {
  const { provider, chatModel, modelDir, toolsDir } = settings;
  if (provider !== null) {
    narrator.line(`Answers and embeddings come from ${provider.baseUrl}, the provider in OPENAI_BASE_URL.`);
    if (chatModel === null) narrator.note('Set CHAT_MODEL and EMBEDDING_MODEL to models of this provider.');
    return chatModel;
  }
  if (chatModel !== null) return chatModel;
  const folders = modelDir === null ? null : { modelDir, toolsDir };
  const isThere = folders !== null && isInstalled(qwenCoder, folders);
  const hindrance = fast ? 'because of --fast' : (whyNotHere(modelDir) ?? (isThere || fetch ? null : HOW_TO_FETCH));
  if (hindrance !== null || folders === null) {
    narrator.line(`No OPENAI_BASE_URL is set: answers are quotations from the documents, ${hindrance}.`);
    return extractive.id;
  }
  narrator.line(`No OPENAI_BASE_URL is set: ${qwenCoder.id} (${qwenCoder.license}) answers on this machine.`);
  narrator.note('An answer takes about half a minute on two idle cores; with --fast, answers are quotations.');
  if (isThere) return qwenCoder.id;
  try {
    await fetchModel(qwenCoder, { folders, onProgress: createProgressBar(process.stdout) });
    return qwenCoder.id;
  } catch (error) {
    narrator.line(error instanceof Error ? error.message : String(error));
    narrator.line('Answers are quotations from the documents instead. The next run resumes the download.');
    return extractive.id;
  }
}

function whyNotHere(modelDir: string | null): string | null {
  const platform = `${process.platform}-${process.arch}`;
  if (!PLATFORMS_WITH_A_BUILD.includes(platform)) return `because the language model has no build for ${platform}`;
  if (totalmem() < MIN_MEMORY_BYTES) return 'because the language model needs a machine with 4 GB of memory';
  return modelDir === null ? 'because MODEL_DIR is not set' : null;
}
