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
  /** Has to occur in the file, or the canary itself is out of date. */
  find: string;
  replace: string;
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
    find: '/** Who may see a row',
    replace: "import { appError } from '../errors.ts';\nexport const planted = appError;\n\n/** Who may see a row",
    check: [bin('dependency-cruiser/bin/dependency-cruiser.mjs'), '--config', '.dependency-cruiser.mjs', 'src'],
  },
  {
    name: 'two activities in another order',
    file: 'workflows/ingest-document.ts',
    find: 'PARSE_BEFORE_CONVERT',
    replace: 'CONVERT_BEFORE_PARSE',
    check: [bin('mocha/bin/mocha.js'), 'test/replay/*.test.ts'],
  },
  {
    name: 'an assertion that does not hold',
    file: 'test/unit/domain/visibility.test.ts',
    find: 'to.equal(true)',
    replace: 'to.equal(false)',
    check: [bin('mocha/bin/mocha.js'), 'test/unit/domain/visibility.test.ts'],
  },
];

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
  if (!original.includes(canary.find)) return `${canary.file} no longer contains what the canary replaces`;
  if (!(await passes(directory, canary.check))) return 'the check is red without the defect';
  await writeFile(file, original.replace(canary.find, canary.replace));
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
