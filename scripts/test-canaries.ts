// `npm run test:canaries`: proves that the everyday tests can fail. Plants one defect at a time in a copy of the
// checkout, and expects the test or check that guards against it to fail by its name, after it passed without the
// defect.
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { exitAfter } from './supervisor/run-until-stopped.ts';
import { failedTests } from './test/results.ts';

type Canary = {
  defect: string;
  file: string;
  /** @returns the source with the defect; an unchanged source means that the canary is out of date */
  plant: (source: string) => string;
  foundBy: { check: string } | { test: string; title: string };
};

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const RESULTS = '.data-test/canary.jsonl';
const run = promisify(execFile);

const CANARIES: Canary[] = [
  {
    defect: 'an import that crosses a boundary',
    file: 'src/domain/access/visibility.ts',
    plant: (source) => `import { appError } from '../../errors.ts';\nexport const planted = appError;\n${source}`,
    foundBy: { check: 'import boundaries' },
  },
  {
    defect: 'two activities in another order',
    file: 'workflows/ingest-document.ts',
    plant: (source) => swap(source, 'embedChunks(input)', 'activateGeneration(input)'),
    foundBy: { test: 'test/replay/histories.test.ts', title: 'recorded histories replays' },
  },
  {
    defect: 'hidden characters in a passage of the prompt',
    file: 'src/domain/chat/context-blocks.ts',
    plant: (source) =>
      source.replace('neutralizeRoleMarkers(removeInvisibleCharacters(text))', 'neutralizeRoleMarkers(text)'),
    foundBy: {
      test: 'test/unit/domain/context-blocks.test.ts',
      title: 'context blocks removes invisible characters',
    },
  },
  {
    defect: 'a folder is changed by a member who may only read it',
    file: 'src/domain/access/policy.ts',
    plant: (source) => source.replace(`'folder:write': manages,`, `'folder:write': holdsKey,`),
    foundBy: { test: 'test/api/folders/change.test.ts', title: 'PATCH /folders/{folder_id} 403' },
  },
  {
    defect: 'a consent is finished by a user who did not begin it',
    file: 'src/modules/consents/consents.service.ts',
    plant: (source) => source.replace('consent.userId !== actor.userId', 'consent.userId === undefined'),
    foundBy: {
      test: 'test/api/connectors/consent-fixation.test.ts',
      title: 'consents begun by one user and given by another create no connection',
    },
  },
  {
    defect: 'an organization whose passwords are hashed before those of all others',
    file: 'src/adapters/passwords/argon2-hasher.ts',
    plant: (source) => source.replaceAll('inTurn(owner,', "inTurn('all',"),
    foundBy: {
      test: 'test/unit/adapters/argon2-hasher.test.ts',
      title: 'Argon2 hasher rejects an owner with too many waiting checks',
    },
  },
  {
    defect: 'an assertion that does not hold',
    file: 'test/unit/domain/visibility.test.ts',
    plant: (source) => source.replace('to.equal(true)', 'to.equal(false)'),
    foundBy: { test: 'test/unit/domain/visibility.test.ts', title: 'visibility' },
  },
];

await exitAfter(async () => {
  const checkout = await copyCheckout();
  let failed = 0;
  try {
    for (const canary of CANARIES) {
      const reason = await tryOut(checkout, canary);
      if (reason !== null) failed += 1;
      console.log(reason === null ? `  ✔ found: ${canary.defect}` : `  ✖ missed: ${canary.defect}: ${reason}`);
    }
  } finally {
    await rm(checkout, { recursive: true, force: true });
  }
  console.log(`${CANARIES.length - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
});

async function tryOut(checkout: string, canary: Canary): Promise<string | null> {
  const file = join(checkout, canary.file);
  const original = await readFile(file, 'utf8');
  const planted = canary.plant(original);
  if (planted === original) return `${canary.file} no longer contains what the canary changes`;
  const before = await failuresOf(checkout, canary.foundBy);
  if (before.length > 0) return `this fails without the defect: ${before.join(', ')}`;
  await writeFile(file, planted);
  const failures = await failuresOf(checkout, canary.foundBy);
  await writeFile(file, original);
  if (failures.length === 0) return 'nothing failed';
  const expected = 'check' in canary.foundBy ? canary.foundBy.check : canary.foundBy.title;
  return failures.some((failure) => failure.startsWith(expected))
    ? null
    : `this failed instead: ${failures.join(', ')}`;
}

async function failuresOf(checkout: string, by: Canary['foundBy']): Promise<string[]> {
  const args = 'check' in by ? ['scripts/check.ts'] : ['scripts/test.ts', by.test, '--results', RESULTS];
  const options = { cwd: checkout, maxBuffer: 64 * 1024 ** 2 };
  const { code, stdout } = await run(process.execPath, args, options).then(
    (ended) => ({ code: 0, stdout: ended.stdout }),
    (error: { code?: number; stdout?: string }) => ({ code: error.code ?? 1, stdout: error.stdout ?? '' }),
  );
  if (code === 0) return [];
  const names =
    'check' in by
      ? [...stdout.matchAll(/^ {2}✖ (.+)$/gm)].map(([, name = '']) => name)
      : failedTests(join(checkout, RESULTS));
  return names.length > 0 ? names : [`exit code ${code}`];
}

function swap(source: string, one: string, other: string): string {
  if (!source.includes(one) || !source.includes(other)) return source;
  return source.replaceAll(one, '\0').replaceAll(other, one).replaceAll('\0', other);
}

async function copyCheckout(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'canaries-'));
  const { stdout } = await run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT });
  for (const file of stdout.split('\0').filter(Boolean)) {
    await cp(join(ROOT, file), join(directory, file), { recursive: true });
  }
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  return directory;
}
