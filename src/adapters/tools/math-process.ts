/** Child process: evaluates the expression from stdin, and writes `{"result":…}` or `{"error":…}` to stdout. */
import { createRequire } from 'node:module';
import { text } from 'node:stream/consumers';
import { runInNewContext } from 'node:vm';

const outputCharacters = 4_000;
/** Time limit in case the parent process, which kills slow calculations, has died. */
const timeoutMs = 10_000;

// Loads the bundled build of mathjs: hundreds of separate modules would take a second.
const { create, all } = createRequire(import.meta.url)('mathjs/lib/browser/math.js') as typeof import('mathjs');
const math = create(all ?? {});
const { evaluate, format } = math;

/** Functions that compile text to code, change other functions, or are useless for calculations. */
const disabledFunctions = [
  ...['import', 'createUnit', 'reviver', 'help', 'print'],
  ...['evaluate', 'parse', 'parser', 'compile', 'simplify', 'derivative', 'rationalize', 'resolve', 'symbolicEqual'],
];
const throwDisabled = () => {
  throw new Error('This function is not available in math.evaluate.');
};
math.import(Object.fromEntries(disabledFunctions.map((name) => [name, throwDisabled])), { override: true });

function answerTo(expression: string): { result: string } | { error: string } {
  try {
    const value: unknown = evaluate(expression);
    if (typeof value === 'function') return { error: 'The result is a function, not a value.' };
    if (typeof value === 'number' && !Number.isFinite(value)) return { error: 'The result is not a finite number.' };
    return { result: format(value, { precision: 14 }).slice(0, outputCharacters) };
  } catch (error) {
    return { error: (error instanceof Error ? error.message : 'The expression cannot be evaluated.').slice(0, 300) };
  }
}

const expression = await text(process.stdin);
const answer: unknown = runInNewContext('answer()', { answer: () => answerTo(expression) }, { timeout: timeoutMs });
process.stdout.write(JSON.stringify(answer));
