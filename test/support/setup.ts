// Loaded by mocha before the first test file.
import { promiseHooks } from 'node:v8';
import fc from 'fast-check';
import { enableNullColumnChecks } from '#src/adapters/postgres/shapes.ts';
import { runSeed } from './seeded.ts';

/** The everyday run always draws the same values; `npm run test:all` sets another seed and prints it. */
fc.configureGlobal({ seed: runSeed });

// For stack traces of running workflows, the Temporal SDK looks at each promise of its thread. Workflows of tests run on
// the main thread, where these are all promises of the process: a tenth of its CPU time, for traces that no test reads.
promiseHooks.createHook = () => () => undefined;

enableNullColumnChecks();
