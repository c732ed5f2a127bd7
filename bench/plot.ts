import type { Curve } from './report.ts';

/** Colors that are readable on a white and on a black page. */
const kinds = [
  { kind: 'lists', color: '#2f81f7', label: 'lists and pages' },
  { kind: 'searches', color: '#2da44e', label: 'searches' },
  { kind: 'growing', color: '#d9730d', label: 'reads or counts all rows' },
];
const panel = { left: 56, width: 480, labels: 220, height: 260, gap: 66 };
const firstTop = 40;
const ink = '#808890';

/** Draws latencies over the number of rows, both on logarithmic axes: a panel for each kind of rows. */
export function drawCurves(curves: readonly Curve[]): string {
  const panels = [...new Set(curves.map(({ of }) => of))];
  const values = curves.flatMap(({ p95 }) => Object.values(p95));
  const [low, high] = [
    10 ** Math.floor(Math.log10(Math.min(...values))),
    10 ** Math.ceil(Math.log10(Math.max(...values))),
  ];
  const step = panel.height + panel.gap;
  const [width, height] = [panel.left + panel.width + panel.labels, firstTop + panels.length * step];
  const legend = kinds.map(
    ({ color, label }, index) =>
      `<path d="M${panel.left + index * 170} 14h24" stroke="${color}" stroke-width="2"/>` +
      text(panel.left + index * 170 + 30, 18, label),
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11" fill="none">`,
    '<title>p95 of lists and searches by the number of rows</title>',
    ...legend,
    ...panels.flatMap((of, index) =>
      drawPanel(
        curves.filter((curve) => curve.of === of),
        { of, top: firstTop + index * step, low, high },
      ),
    ),
    '</svg>',
    '',
  ].join('\n');
}

function drawPanel(
  curves: readonly Curve[],
  { of, top, low, high }: { of: string; top: number; low: number; high: number },
): string[] {
  const sizes = [...new Set(curves.flatMap(({ p95 }) => Object.keys(p95).map(Number)))].toSorted((a, b) => a - b);
  const [smallest = 1, largest = 1] = [sizes[0], sizes.at(-1)];
  const left = panel.left;
  const [right, bottom] = [left + panel.width, top + panel.height];
  const x = (size: number) => left + (panel.width * Math.log(size / smallest)) / Math.log(largest / smallest);
  const y = (ms: number) => top + panel.height * (1 - Math.log(ms / low) / Math.log(high / low));
  const decades = Array.from({ length: Math.round(Math.log10(high / low)) + 1 }, (_, power) => low * 10 ** power);
  const line = ({ name, kind, p95 }: Curve) => {
    const points = Object.entries(p95).map(([size, ms]) => `${x(Number(size)).toFixed(1)},${y(ms).toFixed(1)}`);
    const color = kinds.find((each) => each.kind === kind)?.color ?? ink;
    return `<polyline points="${points.join(' ')}" stroke="${color}" stroke-width="1.2" opacity="0.75"><title>${escaped(name)}</title></polyline>`;
  };
  // Only curves that grow are named: the others lie too close together.
  const named = curves
    .filter(({ kind }) => kind === 'growing')
    .map(({ name, p95 }) => ({ name, at: y(p95[largest] ?? low) }))
    .toSorted((a, b) => a.at - b.at);
  for (const [index, label] of named.entries()) label.at = Math.max(label.at, (named[index - 1]?.at ?? 0) + 14);
  return [
    ...decades.map((ms) => `<path d="M${left} ${y(ms)}H${right}" stroke="${ink}" opacity="0.35"/>`),
    ...decades.map((ms) => text(left - 6, y(ms) + 4, ms >= 1_000 ? `${ms / 1_000} s` : `${ms} ms`, 'end')),
    ...sizes.map((size) => `<path d="M${x(size)} ${top}V${bottom}" stroke="${ink}" opacity="0.35"/>`),
    ...sizes.map((size) => text(x(size), bottom + 16, size.toLocaleString('en'), 'middle')),
    text((left + right) / 2, bottom + 34, `${of}; p95 of each request`, 'middle'),
    ...curves.map(line),
    ...named.map(({ name, at }) => text(right + 6, at + 4, name.split(',')[0] ?? name)),
  ];
}

function text(x: number, y: number, content: string, anchor = 'start'): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" fill="${ink}" text-anchor="${anchor}">${escaped(content)}</text>`;
}

function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
