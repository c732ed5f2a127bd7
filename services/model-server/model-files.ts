import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { ModelFile, PackagedModel } from './model-manifest.ts';

export type ModelFolders = {
  /** The folder of models downloaded by `npm run models` or copied by hand; null if there is none. */
  modelDir: string | null;
  /** The folder that `pip install --target` filled with the Python packages of the embedded services. */
  toolsDir: string;
};

export function findModelFile(file: ModelFile, { modelDir, toolsDir }: ModelFolders): string | null {
  const packaged = file.sources.flatMap((source) => (source.kind === 'tools' ? [join(toolsDir, source.path)] : []));
  const places = [...(modelDir === null ? [] : [join(modelDir, file.name)]), ...packaged];
  return places.find((path) => existsSync(path)) ?? null;
}

/** Reads a model file into memory, with the checks of `verifiedModelFile`. */
export async function readModelFile(file: ModelFile, folders: ModelFolders): Promise<Buffer<ArrayBuffer>> {
  const path = requireModelFile(file, folders);
  const bytes = await readFile(path);
  if (createHash('sha256').update(bytes).digest('hex') !== file.sha256) throw new WrongContentError(path);
  return bytes;
}

export function isInstalled(model: PackagedModel, folders: ModelFolders): boolean {
  return model.files.every((file) => findModelFile(file, folders) !== null);
}

/**
 * Returns the path of a model file whose SHA-256 is the pinned one. The checksum is cached in a note beside the file,
 * by size and modification time.
 * @throws Error that names the file when it is missing or has another checksum
 */
export async function verifiedModelFile(file: ModelFile, folders: ModelFolders, signal?: AbortSignal): Promise<string> {
  const path = requireModelFile(file, folders);
  if (await isNotedAsVerified(path, file)) return path;
  const sha256 = await hashFile(path, signal);
  if (sha256 !== file.sha256) throw new WrongContentError(path);
  await noteAsVerified(path, file).catch(() => undefined);
  return path;
}

function requireModelFile(file: ModelFile, folders: ModelFolders): string {
  const path = findModelFile(file, folders);
  if (path === null) throw new Error(`The model file ${file.name} was not found in MODEL_DIR or TOOLS_DIR.`);
  return path;
}

export class WrongContentError extends Error {
  constructor(path: string) {
    super(`${path} is not the file that the manifest pins: its SHA-256 differs. Delete it, and fetch it again.`);
  }
}

export async function hashFile(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash, { ...(signal && { signal }) });
  return hash.digest('hex');
}

/**
 * Path of the note that caches a checksum. In a read-only folder it cannot be written, and the file is hashed at each
 * start.
 */
export function notePath(path: string): string {
  return `${path}.verified`;
}

export async function noteAsVerified(path: string, file: ModelFile): Promise<void> {
  await writeFile(notePath(path), await noteOf(path, file));
}

async function isNotedAsVerified(path: string, file: ModelFile): Promise<boolean> {
  const note = await readFile(notePath(path), 'utf8').catch(() => null);
  return note !== null && note === (await noteOf(path, file));
}

async function noteOf(path: string, { sha256 }: ModelFile): Promise<string> {
  const { size, mtimeMs } = await stat(path);
  return JSON.stringify({ sha256, sizeBytes: size, modifiedMs: mtimeMs });
}
