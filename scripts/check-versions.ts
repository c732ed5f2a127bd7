// Part of `npm run check`: refuses pinned versions with a vulnerability that deploy/known-vulnerabilities.json lists.
import { versionProblems } from './deploy/pinned-versions.ts';

const problems = versionProblems();
for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;
