// `perf script | node bench/flame-graph.ts "title" > graph.svg` draws a flame graph of what `perf record -g` sampled in
// Node processes that were started with `--perf-basic-prof`. bench/README.md has the commands.
import { createInterface } from 'node:readline';

type Frame = { name: string; samples: number; children: Map<string, Frame> };

const width = 1_200;
const rowHeight = 17;
const top = 44;
/** Narrower frames are left out: their names would not be readable, and there are thousands. */
const smallestShare = 0.002;
const lettersPerPixel = 1 / 6.2;

/** Colors with which black text is readable, on a white and on a black page. */
const kinds = [
  { label: 'the product', color: '#79b8ff', matches: / (src|workers|activities|workflows|services)\// },
  { label: 'packages', color: '#85e89d', matches: / node_modules\// },
  { label: "Node's own JavaScript", color: '#d1bcf9', matches: / node:/ },
  { label: 'native code and garbage collection', color: '#ffd58c', matches: /^(?!\[k\])/ },
  { label: 'kernel', color: '#c9d1d9', matches: /^\[k\]/ },
];

const isScript = / (src|workers|activities|workflows|services|node_modules)\/| node:/;

const root: Frame = { name: 'all', samples: 0, children: new Map() };
let stack: string[] = [];
for await (const line of createInterface({ input: process.stdin })) {
  const frame = /^\s+[0-9a-f]+ (.+) \((.*)\)$/.exec(line);
  if (frame) stack.push(nameOf(frame[1] ?? '', frame[2] ?? ''));
  else if (line === '') addStack();
}
addStack();

const drawn: string[] = [];
let rows = 0;
draw(root, { x: 0, row: 0 });
const height = top + (rows + 1) * rowHeight + 8;
const title = process.argv[2] ?? 'Flame graph';
console.log(
  [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">`,
    `<title>${escaped(title)}</title>`,
    `<text x="4" y="16" font-size="14" fill="#808890">${escaped(title)}: ${root.samples} samples of CPU time</text>`,
    ...kinds.flatMap(({ label, color }, index) => [
      `<rect x="${4 + index * 220}" y="24" width="12" height="12" fill="${color}"/>`,
      `<text x="${20 + index * 220}" y="34" fill="#808890">${escaped(label)}</text>`,
    ]),
    ...drawn,
    '</svg>',
  ].join('\n'),
);

function addStack(): void {
  if (stack.length === 0) return;
  root.samples += 1;
  let at = root;
  for (const name of readable(stack.toReversed())) {
    // Recursion and trampolines would only make the picture higher.
    if (name === at.name) continue;
    let child = at.children.get(name);
    if (child === undefined) {
      child = { name, samples: 0, children: new Map() };
      at.children.set(name, child);
    }
    child.samples += 1;
    at = child;
  }
  stack = [];
}

/** Leaves out the native frames between frames of JavaScript, and what the kernel does within a system call. */
function readable(frames: string[]): string[] {
  const lastScript = frames.findLastIndex((name) => isScript.test(name));
  const kept = frames.filter((name, index) => index > lastScript || isScript.test(name));
  const systemCall = kept.findIndex((name) => name.startsWith('[k]'));
  return systemCall === -1 ? kept : kept.slice(0, systemCall + 1);
}

/** `JS:*dispatch file:///…/src/http/server.ts:12:3` becomes `dispatch src/http/server.ts`. */
function nameOf(symbol: string, module: string): string {
  const plain = symbol.replace(/\+0x[0-9a-f]+$/, '');
  const script = /^(?:JS|LazyCompile|Function|Script|Eval|RegExp)[a-zA-Z]*:[*^~+']*(.*)$/.exec(plain)?.[1];
  if (script !== undefined) {
    return script
      .replace(/(:\d+)+$/, '')
      .replace(/(?:file:\/\/)?\/\S*\/(node_modules|src|workers|activities|workflows|services|bench)\//, '$1/');
  }
  return module.includes('kernel') ? `[k] ${plain}` : plain.replace(/\(.*$/, '').replace(/^Builtin:/, '');
}

function draw(frame: Frame, { x, row }: { x: number; row: number }): void {
  const pixels = (frame.samples / root.samples) * width;
  const kind = kinds.find(({ matches }) => matches.test(frame.name)) ?? kinds[3];
  const letters = Math.floor((pixels - 6) * lettersPerPixel);
  const label = frame.name.length <= letters ? frame.name : letters > 3 ? `${frame.name.slice(0, letters - 1)}…` : '';
  const share = ((100 * frame.samples) / root.samples).toFixed(1);
  const y = top + row * rowHeight;
  drawn.push(
    `<g><title>${escaped(frame.name)}: ${share} %</title><rect x="${x.toFixed(1)}" y="${y}" width="${Math.max(0.5, pixels - 0.5).toFixed(1)}" height="${rowHeight - 1}" fill="${kind?.color}"/>` +
      `${label === '' ? '' : `<text x="${(x + 3).toFixed(1)}" y="${y + 12}">${escaped(label)}</text>`}</g>`,
  );
  rows = Math.max(rows, row);
  let childX = x;
  for (const child of [...frame.children.values()].toSorted((a, b) => b.samples - a.samples)) {
    if (child.samples / root.samples >= smallestShare) draw(child, { x: childX, row: row + 1 });
    childX += (child.samples / root.samples) * width;
  }
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
