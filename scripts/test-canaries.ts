// `npm run test:canaries [-- http]`: proves that the everyday tests can fail. Plants one defect at a time in a copy of the
// checkout, and expects a failure of the check or of the file of tests that guards against it, which passed without the
// defect. Words after the command choose canaries whose descriptions contain them.
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { exitAfter } from './supervisor/run-until-stopped.ts';
import { failedTests } from './test/results.ts';

type Canary = {
  defect: string;
  file: string;
  /** Returns the source with the defect. An unchanged source means that the canary is out of date. */
  plant: (source: string) => string;
  /** The check, or the file of tests, that must fail. */
  foundBy: { check: string } | { test: string };
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
    foundBy: { test: 'test/replay/histories.test.ts' },
  },
  {
    defect: 'an assertion that does not hold',
    file: 'test/unit/domain/access.test.ts',
    plant: replacing('.equal(true)', '.equal(false)'),
    foundBy: { test: 'test/unit/domain/access.test.ts' },
  },
  {
    defect: 'access: members who may read a folder change it',
    file: 'src/domain/access/policy.ts',
    plant: replacing(`'folder:write': manages,`, `'folder:write': holdsKey,`),
    foundBy: { test: 'test/api/permissions/matrix.test.ts' },
  },
  {
    defect: 'access: rows of another organization are readable',
    file: 'src/domain/access/policy.ts',
    plant: replacing('resource.orgId === actor.orgId && ', ''),
    foundBy: { test: 'test/unit/domain/access.test.ts' },
  },
  {
    defect: 'auth: a refresh token works twice',
    file: 'src/modules/auth/sessions.repository.ts',
    plant: replacing(".whereNull('usedAt')\n", '\n'),
    foundBy: { test: 'test/api/auth/sessions.test.ts' },
  },
  {
    defect: 'members: the last admin of an organization steps down',
    file: 'src/modules/members/members.service.ts',
    plant: replacing('if (!isOrgAdmin) await requireAnotherAdmin(trx, orgId, userId);', ''),
    foundBy: { test: 'test/api/members/members.test.ts' },
  },
  {
    defect: 'passwords: one organization is hashed before all others',
    file: 'src/adapters/passwords/argon2-hasher.ts',
    plant: replacing('inTurn(owner,', "inTurn('all',"),
    foundBy: { test: 'test/unit/adapters/argon2-hasher.test.ts' },
  },
  {
    defect: 'secrets: a secret can be read as that of another row',
    file: 'src/adapters/secrets/secret-cipher.ts',
    plant: replacing('authenticated(id, associatedData)', "authenticated(id, '')"),
    foundBy: { test: 'test/unit/adapters/secret-cipher.test.ts' },
  },
  {
    defect: 'http: If-Match is ignored',
    file: 'src/errors.ts',
    plant: replacing('!expected.includes(version)', 'false'),
    foundBy: { test: 'test/api/http/conditional-changes.test.ts' },
  },
  {
    defect: 'http: an Idempotency-Key answers another request',
    file: 'src/adapters/postgres/idempotency-keys.ts',
    plant: replacing('row.fingerprint !== fingerprint', 'false'),
    foundBy: { test: 'test/api/http/idempotency.test.ts' },
  },
  {
    defect: 'http: one request too many is allowed',
    file: 'src/adapters/limits.ts',
    plant: replacing('window.used <= count', 'window.used <= count + 1'),
    foundBy: { test: 'test/api/http/noisy-neighbours.test.ts' },
  },
  {
    defect: 'web: a host is reached if one of its addresses is public',
    file: 'src/adapters/web/guarded-agent.ts',
    plant: replacing('!addresses.every(isPublicAddress)', '!addresses.some(isPublicAddress)'),
    foundBy: { test: 'test/unit/adapters/guarded-fetch.test.ts' },
  },
  {
    defect: 'documents: chunks lose their overlap',
    file: 'src/domain/documents/chunking.ts',
    plant: replacing('tokens(first - 1, end) <= overlapTokens', 'false'),
    foundBy: { test: 'test/unit/domain/chunking.test.ts' },
  },
  {
    defect: 'ingestion: a generation is published under the embedding model of the one before',
    file: 'src/modules/ingestion/generations.repository.ts',
    plant: replacing("'g.embeddingModel as model'", "'d.activeEmbeddingModel as model'"),
    foundBy: { test: 'test/activities/ingestion/ingestion.test.ts' },
  },
  {
    defect: 'retrieval: ranks begin at zero',
    file: 'src/domain/retrieval/fusion-and-reranking.ts',
    plant: replacing('[hit.id, index + 1]', '[hit.id, index]'),
    foundBy: { test: 'test/unit/domain/fusion-and-reranking.test.ts' },
  },
  {
    defect: 'chat: hidden characters stand in a passage of the prompt',
    file: 'src/domain/chat/context-blocks.ts',
    plant: replacing('neutralizeRoleMarkers(removeInvisibleCharacters(text))', 'neutralizeRoleMarkers(text)'),
    foundBy: { test: 'test/unit/domain/context-blocks.test.ts' },
  },
  {
    defect: 'chat: a citation of a passage that is no longer readable stays',
    file: 'src/modules/chat/citations.ts',
    plant: replacing("return 'unreadable'", 'return null'),
    foundBy: { test: 'test/api/chat/documents.test.ts' },
  },
  {
    defect: 'chat: a citation that the passage does not support stays',
    file: 'src/modules/chat/citations.ts',
    plant: replacing("holds ? null : 'unsupported'", 'null'),
    foundBy: { test: 'test/api/chat/documents.test.ts' },
  },
  {
    defect: 'alignment: drift is seen too late',
    file: 'src/domain/alignment/chat-state.ts',
    plant: replacing('const driftUnder = 45', 'const driftUnder = 40'),
    foundBy: { test: 'test/unit/domain/alignment-state.test.ts' },
  },
  {
    defect: 'evaluations: the order of two replies decides',
    file: 'src/domain/judging/comparison.ts',
    plant: replacing('if (first === second) return', 'if (first) return'),
    foundBy: { test: 'test/unit/judging/results.test.ts' },
  },
  {
    defect: 'connectors: a user who did not begin a consent finishes it',
    file: 'src/modules/consents/consents.service.ts',
    plant: replacing('consent.userId !== actor.userId', 'consent.userId === undefined'),
    foundBy: { test: 'test/api/connectors/consents.test.ts' },
  },
  {
    defect: 'imports: a mass deletion needs no confirmation',
    file: 'src/modules/imports/import-steps.service.ts',
    plant: replacing('if (run.acceptsDeletions || run.deleted > 0) return;', 'return;'),
    foundBy: { test: 'test/api/connectors/sync.test.ts' },
  },
  {
    defect: 'jobs: the late end of an earlier attempt ends the present one',
    file: 'src/modules/jobs/jobs.repository.ts',
    plant: replacing("query.where({ attempt }).whereNull('finishedAt')", "query.whereNull('finishedAt')"),
    foundBy: { test: 'test/activities/ingestion/ingestion.test.ts' },
  },
  {
    defect: 'erasure: folders of a deleted user stay',
    file: 'src/contracts/deletion.ts',
    plant: replacing("'folders',", ''),
    foundBy: { test: 'test/workflows/long-runs.test.ts' },
  },
];

await exitAfter(async () => {
  const wanted = process.argv.slice(2);
  const canaries = CANARIES.filter(({ defect }) => wanted.every((word) => defect.includes(word)));
  const checkout = await copyCheckout();
  let failed = 0;
  try {
    for (const canary of canaries) {
      const reason = await tryOut(checkout, canary);
      if (reason !== null) failed += 1;
      console.log(reason === null ? `  ✔ found: ${canary.defect}` : `  ✖ missed: ${canary.defect}: ${reason}`);
    }
  } finally {
    await rm(checkout, { recursive: true, force: true });
  }
  console.log(`${canaries.length - failed} passed, ${failed} failed`);
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
  if (!('check' in canary.foundBy)) return null;
  return failures.includes(canary.foundBy.check) ? null : `this failed instead: ${failures.join(', ')}`;
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

/** Replaces every occurrence. */
function replacing(one: string, other: string): (source: string) => string {
  return (source) => source.replaceAll(one, other);
}

function swap(source: string, one: string, other: string): string {
  if (!source.includes(one) || !source.includes(other)) return source;
  return source.replaceAll(one, '\0').replaceAll(other, one).replaceAll('\0', other);
}

async function copyCheckout(): Promise<string> {
  await mkdir(join(ROOT, '.data-test'), { recursive: true });
  const directory = await mkdtemp(join(ROOT, '.data-test/canaries-'));
  const { stdout } = await run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT });
  for (const file of stdout.split('\0').filter(Boolean)) {
    await cp(join(ROOT, file), join(directory, file), { recursive: true });
  }
  // Links of files and no link of the folder: the sandbox of parsers may read only below the checkout.
  await run('cp', ['-al', join(ROOT, 'node_modules'), directory]);
  return directory;
}
