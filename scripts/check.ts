// `npm run check`: runs the checks that need no tests, such as types and lint.
import { runChecks } from './checks.ts';

const { passed, failed } = await runChecks();
console.log(`${passed} passed, ${failed.length} failed`);
process.exitCode = failed.length === 0 ? 0 : 1;
