import { percentile, type Served } from './simulation.ts';

const [width, height] = [640, 300];
const plot = { left: 60, right: 500, top: 30, bottom: 250 };
const [shortest, longest] = [0.001, 1_000];
const intervalSeconds = 20;
/** Readable on a white and on a black page, like the colors of the lines. */
const ink = '#808890';

/** Draws the 95th percentile of the waiting time over the time since the burst, with a logarithmic scale of seconds. */
export function waitingChart({ fifo, fair }: { fifo: readonly Served[]; fair: readonly Served[] }): string {
  const end = Math.max(...fifo.map(({ at }) => at));
  const x = (at: number) => plot.left + (at / end) * (plot.right - plot.left);
  const scale = (waited: number) => Math.log10(Math.min(longest, Math.max(shortest, waited)) / shortest);
  const y = (waited: number) => plot.bottom - (scale(waited) / scale(longest)) * (plot.bottom - plot.top);
  const pointsOf = (served: readonly Served[]) =>
    Array.from({ length: Math.floor(end / intervalSeconds) }, (_, index) => {
      const from = index * intervalSeconds;
      const waits = served.filter(({ at }) => at >= from && at < from + intervalSeconds).map(({ waited }) => waited);
      return { at: from + intervalSeconds / 2, waited: percentile(waits, 0.95) };
    }).filter(({ waited }) => !Number.isNaN(waited));
  const line = (served: readonly Served[], color: string, name: string) => {
    const points = pointsOf(served);
    const last = points.at(-1) ?? { at: 0, waited: shortest };
    const path = points.map(({ at, waited }) => `${x(at).toFixed(0)},${y(waited).toFixed(0)}`).join(' ');
    return [
      `<polyline points="${path}" fill="none" stroke="${color}" stroke-width="2"/>`,
      `<text x="${(x(last.at) + 6).toFixed(0)}" y="${(y(last.waited) + 4).toFixed(0)}" fill="${color}">${name}</text>`,
    ];
  };
  const levels = (
    [
      [0.001, '1 ms'],
      [0.01, '10 ms'],
      [0.1, '100 ms'],
      [1, '1 s'],
      [10, '10 s'],
      [100, '100 s'],
    ] as const
  ).flatMap(([waited, label]) => [
    `<line x1="${plot.left}" x2="${plot.right}" y1="${y(waited).toFixed(0)}" y2="${y(waited).toFixed(0)}" stroke="${ink}" stroke-opacity="0.3"/>`,
    `<text x="${plot.left - 6}" y="${(y(waited) + 4).toFixed(0)}" text-anchor="end" fill="${ink}">${label}</text>`,
  ]);
  const times = Array.from({ length: Math.floor(end / 100) + 1 }, (_, index) => 100 * index).map(
    (at) => `<text x="${x(at).toFixed(0)}" y="${plot.bottom + 18}" text-anchor="middle" fill="${ink}">${at}</text>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12">`,
    '<title>Waiting time of other organizations after a burst of 10,000 documents</title>',
    `<text x="${plot.left}" y="16" fill="${ink}">Wait of other organizations' documents, 95th percentile</text>`,
    ...levels,
    ...times,
    `<text x="${plot.left}" y="${plot.bottom + 38}" fill="${ink}">seconds after the burst (simulated)</text>`,
    ...line(fifo, '#d9730d', 'one FIFO queue'),
    ...line(fair, '#2f81f7', 'fairness keys'),
    '</svg>',
    '',
  ].join('\n');
}
