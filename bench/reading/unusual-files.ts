import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Likeness, wordsOf } from './likeness.ts';

/** A file of the set with what a reader sees in it. */
export type UnusualFile = {
  name: string;
  path: string;
  what: string;
  text: string;
  /** Words that a reader does not see: deleted, clipped or hidden ones. */
  absent: string[];
  /** The least likeness to the text; lower than usual only for a reason. */
  least: Likeness;
  reason: string | null;
};

type Shortcoming = Partial<Likeness> & { reason: string };

const folder = join(import.meta.dirname, 'set');
const usual: Likeness = { recall: 0.95, order: 0.95 };

/** The files that `make/` makes, as `expected.txt` describes them, with the known shortcomings of `reasons.json`. */
export function readUnusualFiles(): UnusualFile[] {
  const known: Record<string, Shortcoming> = JSON.parse(
    readFileSync(join(import.meta.dirname, 'reasons.json'), 'utf8'),
  );
  const described = readFileSync(join(folder, 'expected.txt'), 'utf8').split(/^=== /m).slice(1);
  return described.map((each) => {
    const [head = '', text = ''] = each.split('\n--- text\n');
    const [name = '', ...lines] = head.split('\n');
    const fields = Object.fromEntries(lines.map((line) => line.split(': ')));
    const { reason = null, ...least } = known[name] ?? {};
    return {
      ...{ name, path: join(folder, name), what: fields.what, text },
      absent: fields.absent?.split(', ') ?? [],
      least: { ...usual, ...least },
      reason,
    };
  });
}

/** The absent words of a file that its text has. */
export function absentWordsIn(body: string, { absent }: UnusualFile): string[] {
  const words = new Set(wordsOf(body));
  return absent.filter((each) => wordsOf(each).some((word) => words.has(word)));
}
