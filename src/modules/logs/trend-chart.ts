import { escapeHtml } from '#src/domain/text/plain-text.ts';
import type { TrendPoint } from './logs.model.ts';

const width = 720;
const height = 284;
const plot = { left: 44, top: 36, right: width - 16, bottom: height - 60 };

/** Scores at which the chart draws the limits of the states `watch` and drift; see domain/alignment/chat-state.ts. */
const limits = [65, 45];

const bandNames = ['stable', 'watch', 'drift', 'refusal'];

const bandOf = (state: TrendPoint['state']): string =>
  state.startsWith('drift_') ? 'drift' : state === 'refusal' ? 'refusal' : state;

const styles = `
  .ground { fill: #ffffff } text { fill: #3c4654; font: 12px system-ui, sans-serif }
  .title { font-weight: 600; font-size: 14px }
  .grid { stroke: #d5dae1 } .limit { stroke: #7a8594; stroke-dasharray: 4 4 }
  .trend { fill: none; stroke: #1f5fbf; stroke-width: 2; stroke-linejoin: round } .point { fill: #1f5fbf }
  .refused { fill: #ffffff; stroke: #8b3fa8; stroke-width: 2 }
  .stable { fill: #e7f4ea } .watch { fill: #fdf3d0 } .drift { fill: #fbdcd8 } .refusal { fill: #efe0f5 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #14181e } text { fill: #ccd4de } .grid { stroke: #39424e } .limit { stroke: #8b96a5 }
    .trend { stroke: #7fb2ff } .point { fill: #7fb2ff } .refused { fill: #14181e; stroke: #d69cec }
    .stable { fill: #17301f } .watch { fill: #3a3210 } .drift { fill: #451d1a } .refusal { fill: #342040 }
  }`;

/**
 * Draws a chat's alignment over its rounds as SVG: the curve from 0 to 100 with both limits, the states as bands, and a
 * ring for each refusal. It has a text description, follows the reader's light or dark mode, and escapes the title.
 */
export function drawTrendChart({ title, points }: { title: string; points: readonly TrendPoint[] }): string {
  const first = points[0]?.round ?? 1;
  const last = points.at(-1)?.round ?? 1;
  const step = (plot.right - plot.left) / (last - first + 1);
  const x = (round: number) => rounded(plot.left + (round - first + 0.5) * step);
  const y = (ewma: number) => rounded(plot.bottom - (ewma / 100) * (plot.bottom - plot.top));

  const bands = joinBands(points).map(({ band, from, to }) => {
    const [left, right] = [x(from) - step / 2, x(to) + step / 2];
    return `<rect class="${band}" x="${rounded(left)}" y="${plot.top}" width="${rounded(right - left)}" height="${plot.bottom - plot.top}"/>`;
  });
  const grid = [0, 100].flatMap((ewma) => line('grid', ewma));
  const drawnLimits = limits.flatMap((ewma) => line('limit', ewma));
  const path = points.map(({ round, ewma }, index) => `${index === 0 ? 'M' : 'L'}${x(round)} ${y(ewma)}`).join('');
  const refusals = points.filter(({ state }) => state === 'refusal');
  const marks = [
    // Draws a circle for a trend of one round, because a curve of one point is invisible.
    ...(points.length === 1 ? points.map(({ round, ewma }) => circle('point', round, ewma)) : []),
    ...refusals.map(({ round, ewma }) => circle('refused', round, ewma)),
  ];

  function line(kind: string, ewma: number): string[] {
    return [
      `<line class="${kind}" x1="${plot.left}" x2="${plot.right}" y1="${y(ewma)}" y2="${y(ewma)}"/>`,
      `<text x="${plot.left - 6}" y="${y(ewma) + 4}" text-anchor="end">${ewma}</text>`,
    ];
  }
  function circle(kind: string, round: number, ewma: number): string {
    return `<circle class="${kind}" cx="${x(round)}" cy="${y(ewma)}" r="4"/>`;
  }

  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title desc">`,
    `<title id="title">${escapeXml(`Trend of ${title}`)}</title>`,
    `<desc id="desc">${escapeXml(describe(points))}</desc>`,
    `<style>${styles}\n</style>`,
    `<rect class="ground" width="${width}" height="${height}"/>`,
    `<text class="title" x="${plot.left}" y="22">${escapeXml(shorten(title))}</text>`,
    ...bands,
    ...grid,
    ...drawnLimits,
    `<path class="trend" d="${path}"/>`,
    ...marks,
    ...(points.length === 0
      ? [`<text x="${width / 2}" y="${height / 2}" text-anchor="middle">No round has been scored yet.</text>`]
      : [first, ...(last > first ? [last] : [])].map(
          (round) => `<text x="${x(round)}" y="${plot.bottom + 18}" text-anchor="middle">${round}</text>`,
        )),
    ...bandNames.flatMap(legend),
    '</svg>\n',
  ].join('\n');
}

function legend(band: string, index: number): string[] {
  const left = plot.left + index * 90;
  return [
    `<rect class="${band}" x="${left}" y="${height - 22}" width="12" height="12"/>`,
    `<text x="${left + 18}" y="${height - 12}">${band}</text>`,
  ];
}

/** Merges consecutive rounds of the same band; rounds without scores belong to the band before them. */
function joinBands(points: readonly TrendPoint[]): { band: string; from: number; to: number }[] {
  const bands: { band: string; from: number; to: number }[] = [];
  for (const { round, state } of points) {
    const newest = bands.at(-1);
    if (newest !== undefined) newest.to = round - 1;
    if (newest?.band === bandOf(state)) newest.to = round;
    else bands.push({ band: bandOf(state), from: round, to: round });
  }
  return bands;
}

function describe(points: readonly TrendPoint[]): string {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined) return 'No round has been scored yet.';
  const counted = bandNames.flatMap((band) => {
    const count = points.filter(({ state }) => bandOf(state) === band).length;
    return count === 0 ? [] : [`${count} in ${band}`];
  });
  const lowest = points.reduce((low, point) => (point.ewma < low.ewma ? point : low));
  return (
    `Rounds ${first.round} to ${last.round}: the trend is ${rounded(last.ewma)} of 100 and ${last.state} in the last one, ` +
    `lowest with ${rounded(lowest.ewma)} in round ${lowest.round}. Rounds by state: ${counted.join(', ')}. ` +
    'A chat is watched below 65 and drifts below 45.'
  );
}

function escapeXml(text: string): string {
  return escapeHtml(text.toWellFormed().replaceAll(/[\p{Cc}\uFFFE\uFFFF]+/gu, ' '));
}

const rounded = (value: number): number => Math.round(value * 10) / 10;

function shorten(title: string): string {
  const characters = Array.from(title);
  return characters.length <= 80 ? title : `${characters.slice(0, 79).join('')}…`;
}
