import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DataConverter } from '@temporalio/common';
import { bundleWorkflowCode, DefaultLogger, type WorkflowBundleOption } from '@temporalio/worker';

const root = join(import.meta.dirname, '..');
/** All that a bundle may be made of, and the versions of the libraries in it. */
const sources = ['workflows', 'src/contracts', 'src/domain'];
const failureConverter = 'src/temporal/failure-converter.ts';
const lockFile = 'package-lock.json';
const cache = join(root, 'node_modules/.cache/workflow-bundle');

/**
 * The workflows' code as one script. It is kept under the hash of its sources, so that only the first start after a
 * change pays for the bundler (seconds, and 130 MB); images call this once when they are built.
 * @param converter of payloads and failures; what encodes the messages of failures is a part of the bundle
 */
export async function workflowBundle({
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
    workflowInterceptorModules: [join(root, 'workflows/interceptors/trace.ts')],
    ...(failureConverterPath !== undefined && { failureConverterPath }),
    logger: new DefaultLogger('WARN'),
  });
  // Where the folder cannot be written to, the next start bundles again.
  await keep(codePath, code).catch(() => undefined);
  return { code };
}

async function keep(path: string, code: string): Promise<void> {
  await mkdir(cache, { recursive: true });
  const unfinished = `${path}.${process.pid}`;
  await writeFile(unfinished, code);
  await rename(unfinished, path);
}

/** Says which version of the workflows this is: what is made of the same sources replays the same histories. */
export async function workflowsVersion(): Promise<string> {
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
