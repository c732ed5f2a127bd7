import { separateContext } from './context-blocks.ts';
import { splitIntoStatements } from './statements.ts';
import { createTitle } from './title.ts';

/** A quadratic algorithm takes minutes on any of these runs and fails the test by its timeout. */
const runs = ['!', '[', '[a](', '[a](b', 'Mr. ', 'Mr. A. ', '**', '|', '<<aaaaaaaa 1 |', '- ', '\n', '# '];

describe('the extractive model', () => {
  for (const run of runs) {
    it(`reads a text that repeats ${JSON.stringify(run)} 200,000 times without a timeout`, () => {
      const text = `${run.repeat(200_000)}x`;
      for (const read of [separateContext, splitIntoStatements, createTitle]) read(text);
    });
  }
});
