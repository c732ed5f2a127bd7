/**
 * The process in which expressions are worked out: reads one from its input, writes `{"result":…}` or `{"error":…}`.
 * Whoever started it ends it at its limits.
 */
import { createRequire } from 'node:module';
import { text } from 'node:stream/consumers';
import { runInNewContext } from 'node:vm';

const outputCharacters = 4_000;
/** For when whoever started it is gone. */
const timeoutMs = 10_000;

// In one file: its hundreds of modules take a second to load.
const { create, all } = createRequire(import.meta.url)('mathjs/lib/browser/math.js') as typeof import('mathjs');
const math = create(all ?? {});
const { evaluate, format } = math;

/** What makes code of text, changes the functions that are there, or is of no use for a number. */
const refused = [
  ...['import', 'createUnit', 'reviver', 'help', 'print'],
  ...['evaluate', 'parse', 'parser', 'compile', 'simplify', 'derivative', 'rationalize', 'resolve', 'symbolicEqual'],
];
const refuse = () => {
  throw new Error('This function is not available.');
};
math.import(Object.fromEntries(refused.map((name) => [name, refuse])), { override: true });

function answerTo(expression: string): { result: string } | { error: string } {
  try {
    const value: unknown = evaluate(expression);
    if (typeof value === 'function') return { error: 'This is a function and no value.' };
    if (typeof value === 'number' && !Number.isFinite(value)) return { error: 'The result is no finite number.' };
    return { result: format(value, { precision: 14 }).slice(0, outputCharacters) };
  } catch (error) {
    return { error: (error instanceof Error ? error.message : 'This cannot be worked out.').slice(0, 300) };
  }
}

const expression = await text(process.stdin);
const answer: unknown = runInNewContext('answer()', { answer: () => answerTo(expression) }, { timeout: timeoutMs });
process.stdout.write(JSON.stringify(answer));
