// `npm run test:all`: runs all levels one after another, the everyday and the system tests with a new random seed.
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { dieWithParent } from './supervisor/parent-death.ts';

const seed = randomInt(2 ** 31);
const levels = [
  { name: 'npm test', args: ['test.ts', '--seed', String(seed)] },
  { name: 'npm run test:system', args: ['test.ts', '--level', 'system', '--seed', String(seed)] },
  { name: 'npm run test:faults', args: ['test-faults.ts'] },
];

console.log(`Random values come from seed ${seed}: repeat them with --seed ${seed}.`);
const failed: string[] = [];
for (const {
  name,
  args: [script = '', ...args],
} of levels) {
  const [program, ...command] = dieWithParent(
    [process.execPath, join(import.meta.dirname, script), ...args],
    'SIGTERM',
  );
  const [code] = await once(spawn(program, command, { stdio: 'inherit' }), 'exit');
  console.log(`\n${name}: ${code === 0 ? 'passed' : 'FAILED'}`);
  if (code !== 0) failed.push(name);
}
console.log(`${levels.length - failed.length} passed, ${failed.length} failed`);
process.exitCode = failed.length === 0 ? 0 : 1;
