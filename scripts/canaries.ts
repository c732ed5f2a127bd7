import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * Proves that the suite can fail: plants one defect at a time in a copy of the checkout and expects the check that
 * guards against it to turn red. Each check is run on the untouched copy first, where it has to be green.
 */
type Canary = {
  name: string;
  file: string;
  /** Answers the file with the defect in it; the same text means that the canary itself is out of date. */
  plant: (source: string) => string;
  check: string[];
};

const root = fileURLToPath(new URL('..', import.meta.url));
const run = promisify(execFile);
const node = process.execPath;
const bin = (name: string): string => path.join('node_modules', name);

const canaries: Canary[] = [
  {
    name: 'an import that crosses a boundary',
    file: 'src/domain/visibility.ts',
    plant: (source) => `import { appError } from '../errors.ts';\nexport const planted = appError;\n${source}`,
    check: [bin('dependency-cruiser/bin/dependency-cruiser.mjs'), '--config', '.dependency-cruiser.mjs', 'src'],
  },
  {
    name: 'two activities in another order',
    file: 'workflows/ingest-document.ts',
    plant: (source) => swap(source, 'embedChunks(input)', 'activateGeneration(input)'),
    check: [bin('mocha/bin/mocha.js'), 'test/replay/*.test.ts'],
  },
  {
    name: 'hidden characters in a passage of the prompt',
    file: 'src/domain/context-blocks.ts',
    plant: (source) => source.replace('withoutRoleTokens(visibleText(text))', 'withoutRoleTokens(text)'),
    check: [bin('mocha/bin/mocha.js'), 'test/unit/domain/context-blocks.test.ts'],
  },
  {
    name: 'an assertion that does not hold',
    file: 'test/unit/domain/visibility.test.ts',
    plant: (source) => source.replace('to.equal(true)', 'to.equal(false)'),
    check: [bin('mocha/bin/mocha.js'), 'test/unit/domain/visibility.test.ts'],
  },
];

function swap(source: string, one: string, other: string): string {
  if (!source.includes(one) || !source.includes(other)) return source;
  return source.replaceAll(one, '\0').replaceAll(other, one).replaceAll('\0', other);
}

async function copyCheckout(): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), 'canaries-'));
  const { stdout } = await run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root });
  for (const file of stdout.split('\0').filter(Boolean)) {
    await cp(path.join(root, file), path.join(directory, file), { recursive: true });
  }
  await symlink(path.join(root, 'node_modules'), path.join(directory, 'node_modules'));
  return directory;
}

async function passes(directory: string, check: string[]): Promise<boolean> {
  try {
    await run(node, check, { cwd: directory, maxBuffer: 64 * 1024 ** 2 });
    return true;
  } catch {
    return false;
  }
}

/** What went wrong with the canary, or null when its defect was found. */
async function plant(directory: string, canary: Canary): Promise<string | null> {
  const file = path.join(directory, canary.file);
  const original = await readFile(file, 'utf8');
  const planted = canary.plant(original);
  if (planted === original) return `${canary.file} no longer contains what the canary changes`;
  if (!(await passes(directory, canary.check))) return 'the check is red without the defect';
  await writeFile(file, planted);
  const unnoticed = await passes(directory, canary.check);
  await writeFile(file, original);
  return unnoticed ? 'the check stayed green' : null;
}

const directory = await copyCheckout();
let failed = 0;
try {
  for (const canary of canaries) {
    const reason = await plant(directory, canary);
    if (reason !== null) failed += 1;
    console.log(reason === null ? `found   ${canary.name}` : `MISSED  ${canary.name}: ${reason}`);
  }
} finally {
  await rm(directory, { recursive: true, force: true });
}
console.log(`${canaries.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
