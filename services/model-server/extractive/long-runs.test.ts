import { separateContext } from './context-blocks.ts';
import { splitIntoStatements } from './statements.ts';
import { createTitle } from './title.ts';

/** Quadratic work on any of these takes minutes, so that the runner's own time limit fails the test. */
const runs = ['!', '[', '[a](', '[a](b', 'Mr. ', 'Mr. A. ', '**', '|', '<<aaaaaaaa 1 |', '- ', '\n', '# '];

describe('texts that repeat one thing 200,000 times', () => {
  for (const run of runs) {
    it(`are read: ${JSON.stringify(run)}`, () => {
      const text = `${run.repeat(200_000)}x`;
      for (const read of [separateContext, splitIntoStatements, createTitle]) read(text);
    });
  }
});
