import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DataConverter } from '@temporalio/common';
import { bundleWorkflowCode, DefaultLogger, type WorkflowBundleOption } from '@temporalio/worker';

const root = join(import.meta.dirname, '..');
/**
 * Folders whose files can be part of the workflow bundle. The lock file is hashed with them, because it pins library
 * versions.
 */
const sources = ['workflows', 'src/contracts', 'src/domain'];
const failureConverter = 'src/temporal/failure-converter.ts';
const lockFile = 'package-lock.json';
const cache = join(root, 'node_modules/.cache/workflow-bundle');

/**
 * Bundles the workflow code. The bundle is cached by the hash of its sources, because bundling takes seconds and 130 MB
 * of memory.
 */
export async function buildWorkflowBundle({
  failureConverterPath,
}: Pick<DataConverter, 'failureConverterPath'> = {}): Promise<WorkflowBundleOption> {
  const kind = failureConverterPath === undefined ? '' : '-encoding-failures';
  const codePath = join(cache, `${await hashSources()}${kind}.js`);
  const isBuilt = await access(codePath).then(
    () => true,
    () => false,
  );
  if (isBuilt) return { codePath };

  const { code } = await bundleWorkflowCode({
    workflowsPath: join(root, 'workflows/index.ts'),
    workflowInterceptorModules: ['activity-queues', 'activity-summaries', 'trace'].map((name) =>
      join(root, 'workflows/interceptors', `${name}.ts`),
    ),
    ...(failureConverterPath !== undefined && { failureConverterPath }),
    logger: new DefaultLogger('WARN'),
  });
  // If the cache folder is read-only, the next start bundles again.
  await writeCache(codePath, code).catch(() => undefined);
  return { code };
}

async function writeCache(path: string, code: string): Promise<void> {
  await mkdir(cache, { recursive: true });
  const unfinished = `${path}.${process.pid}`;
  await writeFile(unfinished, code);
  await rename(unfinished, path);
}

/**
 * Version of the workflow code, a hash of its sources. Workers of the same version can replay each other's histories.
 */
export async function workflowCodeVersion(): Promise<string> {
  return (await hashSources()).slice(0, 16);
}

async function hashSources(): Promise<string> {
  const files = await Promise.all(
    sources.map(async (folder) =>
      (await readdir(join(root, folder), { recursive: true })).map((name) => join(folder, name)),
    ),
  );
  const hash = createHash('sha256').update(await readFile(join(root, lockFile)));
  const paths = [...files.flat().filter((name) => /\.(ts|json)$/.test(name)), failureConverter];
  for (const file of paths.sort()) {
    hash.update(`\n${file}\n`).update(await readFile(join(root, file)));
  }
  return hash.digest('hex');
}
