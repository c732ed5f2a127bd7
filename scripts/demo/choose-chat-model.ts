import { totalmem } from 'node:os';
import { isInstalled } from '../../services/model-server/model-files.ts';
import { extractive, qwenCoder } from '../../services/model-server/model-manifest.ts';
import { fetchModel } from '../models/fetch-model.ts';
import { createProgressBar } from '../models/progress-bar.ts';
import type { StartSettings } from '../settings.ts';
import type { Narrator } from './narrator.ts';

/** The model takes 2.2 GB, beside Postgres, Temporal, the API and the worker with 0.9. */
const MIN_MEMORY_BYTES = 4 * 1024 ** 3;
const PLATFORMS_WITH_A_BUILD = ['linux-x64', 'linux-arm64'];

/** Who answers the demo's questions. Without a provider's key the language model is fetched once, unless it must be fast. */
export async function chooseChatModel(
  settings: StartSettings,
  { fast, narrator }: { fast: boolean; narrator: Narrator },
): Promise<string | null> {
  const { provider, chatModel, modelDir, toolsDir } = settings;
  if (provider !== null || chatModel !== null) return chatModel;
  const hindrance = fast ? 'as --fast asks' : whyNotHere(modelDir);
  if (hindrance !== null || modelDir === null) {
    narrator.line(`No OPENAI_BASE_URL is set: answers are quotations from the documents, ${hindrance}.`);
    return extractive.id;
  }
  narrator.line(`No OPENAI_BASE_URL is set: ${qwenCoder.id} (${qwenCoder.license}) answers on this machine.`);
  narrator.note('It takes a while on a few cores; --fast answers with quotations instead.');
  const folders = { modelDir, toolsDir };
  if (isInstalled(qwenCoder, folders)) return qwenCoder.id;
  try {
    await fetchModel(qwenCoder, { folders, onProgress: createProgressBar(process.stdout) });
    return qwenCoder.id;
  } catch (error) {
    narrator.line(error instanceof Error ? error.message : String(error));
    narrator.line('So answers are quotations from the documents. The next run goes on with the download.');
    return extractive.id;
  }
}

function whyNotHere(modelDir: string | null): string | null {
  const platform = `${process.platform}-${process.arch}`;
  if (!PLATFORMS_WITH_A_BUILD.includes(platform)) return `because the language model has no build for ${platform}`;
  if (totalmem() < MIN_MEMORY_BYTES) return 'because the language model needs a machine with 4 GB of memory';
  return modelDir === null ? 'because MODEL_DIR is not set' : null;
}
