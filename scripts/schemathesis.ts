import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { installWheels, wheelsFolder } from './bootstrap/tools.mjs';
import { dieWithParent } from './supervisor/parent-death.ts';
import { StartFailure } from './supervisor/start-failure.ts';

const REQUIREMENTS = [join(import.meta.dirname, 'requirements-schemathesis.txt')];
const CONFIG = join(import.meta.dirname, 'schemathesis.toml');

/** `failed` counts distinct failures of the API and errors of Schemathesis itself. */
export type SchemathesisTally = { operations: number; cases: number; failed: number };

const report = z.object({
  operations: z.object({ tested: z.int() }),
  test_cases: z.object({ generated: z.int(), unique_failures: z.int() }),
  errors: z.array(z.object({ count: z.int() })),
});

/**
 * Installs Schemathesis in the tools cache, once for all checkouts.
 * @returns the folder of its Python packages
 * @throws StartFailure if Python is older than 3.11
 */
export async function installSchemathesis(toolsDir: string): Promise<string> {
  const question = 'import sys; sys.exit(sys.version_info < (3, 11))';
  await promisify(execFile)('python3', ['-c', question]).catch(() => {
    throw new StartFailure('Schemathesis needs Python 3.11 or newer, as `python3`.');
  });
  const folder = wheelsFolder('schemathesis', REQUIREMENTS, dirname(toolsDir));
  await installWheels({ what: 'Schemathesis', size: '60 MB in your cache', requirements: REQUIREMENTS, folder });
  return folder;
}

/**
 * Tests the operations of a running API against its OpenAPI document, and prints the report.
 * @param options.accessToken null sends no Authorization header
 * @param options.home folder with the ids of existing objects, which also receives the files of Schemathesis
 * @param options.args further arguments of `schemathesis run`
 */
export async function runSchemathesis(options: {
  folder: string;
  apiUrl: string;
  accessToken: string | null;
  args: readonly string[];
  home: string;
  signal: AbortSignal;
}): Promise<SchemathesisTally> {
  const { folder, apiUrl, accessToken, args, home, signal } = options;
  const reportPath = join(home, 'report.json');
  // Paths in schemathesis.toml are relative to the file.
  await copyFile(CONFIG, join(home, 'schemathesis.toml'));
  const python = ['python3', '-m', 'schemathesis.cli', 'run', `${apiUrl}/openapi.json`] as const;
  const [program, ...rest] = dieWithParent([...python, '--report-json-path', reportPath, ...args], 'SIGTERM');
  const child = spawn(program, rest, {
    env: {
      ...process.env,
      PYTHONPATH: [folder, import.meta.dirname].join(':'),
      PYTHONDONTWRITEBYTECODE: '1',
      ...(accessToken !== null && { ACCESS_TOKEN: accessToken }),
    },
    cwd: home,
    stdio: 'inherit',
    signal,
  });
  const [code] = await once(child, 'exit');
  const written = await readFile(reportPath, 'utf8').catch(() => null);
  if (written === null) throw new StartFailure(`Schemathesis ended without a report (exit code ${code}).`);
  const { operations, test_cases, errors } = report.parse(JSON.parse(written));
  const failed = errors.reduce((sum, { count }) => sum + count, test_cases.unique_failures);
  return { operations: operations.tested, cases: test_cases.generated, failed };
}
