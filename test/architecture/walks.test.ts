import { readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { expect } from 'chai';
import { importsOf } from '../../scripts/test/imports.ts';

const root = resolve(import.meta.dirname, '../..');
const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8');

/** A file of a drawing and the files above it, from the nearest to the first of its process. */
type Step = { file: string; above: string[] };

const walks = [
  { heading: '## One upload, step by step', first: 'documents.routes.ts', most: 15 },
  { heading: '## One chat round, step by step', first: 'chat.routes.ts', most: 30 },
];

describe('docs/architecture.md', () => {
  for (const { heading, first, most } of walks) {
    const steps = readWalk(heading);
    const files = steps.map(({ file }) => file);

    describe(`section "${heading.replace('## ', '')}"`, () => {
      it(`shows at most ${most} files, each once`, () => {
        expect(files.some((file) => file.endsWith(first))).to.equal(true);
        expect(files.filter((file, index) => files.indexOf(file) !== index)).to.deep.equal([]);
        expect(files.length).at.most(most);
      });

      it('indents each file under a file that calls it, and never under a file that it imports', () => {
        const wrong = steps.flatMap(({ file, above }) => {
          const isUncalled = above[0] !== undefined && !calls(above[0], file);
          const importsUp = above.filter((upper) => importsOf(file).includes(upper));
          return [
            ...(isUncalled ? [`${above[0]} does not call ${file}`] : []),
            ...importsUp.map((up) => `${file}: ${up}`),
          ];
        });
        expect(wrong).to.deep.equal([]);
      });

      it('lists, as the first file of the worker, the workflow that is started by the file listed just before', () => {
        const { file } = steps.find(({ file: name }) => name.startsWith('workflows/')) ?? { file: '' };
        const name = basename(file, '.ts').replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
        const starter = files[files.indexOf(file) - 1] ?? '';
        expect(name).not.to.equal('');
        expect(readFileSync(join(root, starter), 'utf8')).to.include(name);
      });
    });
  }
});

/** Blank lines separate processes: the request, and the workflow that it starts. */
function readWalk(heading: string): Step[] {
  const [, text = ''] = /^```walk\n(.*?)^```/ms.exec(page.slice(page.indexOf(`${heading}\n`))) ?? [];
  const path: string[] = [];
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const depth = (/^ */.exec(line)?.[0].length ?? 0) / 2;
      const [file = ''] = line.trim().split(/\s+/);
      path.splice(depth, path.length, file);
      return { file, above: path.slice(0, depth).reverse() };
    });
}

/** A file calls one that it imports, or one that is passed to it as a type of `src/ports` or as a `HttpRoute`. */
function calls(file: string, other: string): boolean {
  if (importsOf(file).includes(other)) return true;
  const shared = importsOf(file).filter((path) => importsOf(other).includes(path));
  return shared.some((path) => path.startsWith('src/ports/') || path === 'src/http/routing/route.ts');
}
