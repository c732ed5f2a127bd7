import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dieWithParent } from './supervisor/parent-death.ts';

export type CheckTally = { passed: number; failed: string[] };

const CODE = ['src', 'workflows', 'activities', 'workers', 'migrations', 'services', 'scripts', 'test', 'bench'];

const CHECKS = [
  // TypeScript 7 takes a third of the time; dependency-cruiser still needs the API of TypeScript 6.
  { name: 'types', command: ['node_modules/typescript-native/bin/tsc', '--noEmit', '--project', '.'] },
  { name: 'format and lint', command: ['node_modules/@biomejs/biome/bin/biome', 'check', '--error-on-warnings', '.'] },
  {
    name: 'import boundaries',
    command: [
      'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs',
      ...['--config', '.dependency-cruiser.mjs', ...CODE.filter((folder) => existsSync(folder))],
    ],
  },
  { name: 'no unused code', command: ['node_modules/knip/bin/knip.js'] },
  { name: 'no pinned version with a listed vulnerability', command: ['scripts/check-versions.ts'] },
];

export async function runChecks(signal?: AbortSignal): Promise<CheckTally> {
  const results = await Promise.all(CHECKS.map(({ name, command }) => runCheck({ name, command, signal })));
  const failed = CHECKS.filter((_, index) => !results[index]).map(({ name }) => name);
  return { passed: CHECKS.length - failed.length, failed };
}

function runCheck(check: { name: string; command: string[]; signal?: AbortSignal | undefined }): Promise<boolean> {
  const { name, command, signal } = check;
  const begin = performance.now();
  const [program, ...args] = dieWithParent([process.execPath, ...command], 'SIGKILL');
  return new Promise((resolve) => {
    execFile(program, args, { maxBuffer: 64 * 1024 * 1024, ...(signal && { signal }) }, (error, stdout, stderr) => {
      const seconds = ((performance.now() - begin) / 1000).toFixed(1);
      console.log(error === null ? `  ✔ ${name} (${seconds} s)` : `  ✖ ${name}\n${stdout}${stderr}`);
      resolve(error === null);
    });
  });
}
