// Loaded by mocha before the first test file.
import fc from 'fast-check';

/** The everyday run always draws the same values; `npm run test:all` sets another seed and prints it. */
fc.configureGlobal({ seed: Number(process.env.TEST_SEED ?? 1) });
