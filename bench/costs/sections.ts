import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..', '..');

/** Replaces the text between the markers `<!-- begin: name -->` and `<!-- end: name -->` of a page. */
export async function replaceSections(path: string, sections: Readonly<Record<string, string[]>>): Promise<void> {
  const file = join(root, path);
  let page = await readFile(file, 'utf8');
  for (const [name, lines] of Object.entries(sections)) {
    const [open, close] = [`<!-- begin: ${name} -->`, `<!-- end: ${name} -->`];
    const [from, to] = [page.indexOf(open), page.indexOf(close)];
    if (from < 0 || to < from) throw new Error(`${path} does not have the markers ${open} and ${close}.`);
    page = `${page.slice(0, from + open.length)}\n\n${lines.join('\n')}\n\n${page.slice(to)}`;
  }
  await writeFile(file, page);
}
