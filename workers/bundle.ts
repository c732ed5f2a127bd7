import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleWorkflowCode, DefaultLogger, type WorkflowBundleOption } from '@temporalio/worker';

const root = join(import.meta.dirname, '..');
/** All that a bundle may be made of, and the versions of the libraries in it. */
const sources = ['workflows', 'src/contracts', 'src/domain'];
const lockFile = 'package-lock.json';
const cache = join(root, 'node_modules/.cache/workflow-bundle');

/**
 * The workflows' code as one script. It is kept under the hash of its sources, so that only the first start after a
 * change pays for the bundler (seconds, and 130 MB); images call this once when they are built.
 */
export async function workflowBundle(): Promise<WorkflowBundleOption> {
  const codePath = join(cache, `${await hashSources()}.js`);
  const isBuilt = await access(codePath).then(
    () => true,
    () => false,
  );
  if (isBuilt) return { codePath };

  const { code } = await bundleWorkflowCode({
    workflowsPath: join(root, 'workflows/index.ts'),
    workflowInterceptorModules: [join(root, 'workflows/interceptors/trace.ts')],
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

async function hashSources(): Promise<string> {
  const files = await Promise.all(
    sources.map(async (folder) =>
      (await readdir(join(root, folder), { recursive: true })).map((name) => join(folder, name)),
    ),
  );
  const hash = createHash('sha256').update(await readFile(join(root, lockFile)));
  for (const file of files
    .flat()
    .sort()
    .filter((name) => /\.(ts|json)$/.test(name))) {
    hash.update(`\n${file}\n`).update(await readFile(join(root, file)));
  }
  return hash.digest('hex');
}
