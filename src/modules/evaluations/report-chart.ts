import { maxScore } from '#src/domain/judging/rubric.ts';
import type { EvaluationReport } from './report.ts';
import { escaped } from './report-escaping.ts';
import { twoDecimals } from './report-words.ts';

/** In units of the drawing. */
const rowHeight = 28;
const barHeight = 14;
const labelWidth = 260;
const chartWidth = 400;
const figureWidth = 60;

/** A bar for each axis, with a line where the parent stands. */
export function scoreChart({ axes, parent }: EvaluationReport): string {
  const height = axes.length * rowHeight + rowHeight;
  const width = labelWidth + chartWidth + figureWidth;
  const ticks = Array.from({ length: maxScore + 1 }, (_, score) => {
    const x = xOf(score);
    return (
      `<line x1="${x}" x2="${x}" y1="0" y2="${height - rowHeight}" stroke="#8886"/>` +
      `<text x="${x}" y="${height - 8}" text-anchor="middle">${score}</text>`
    );
  });
  const rows = axes.map((axis, index) => {
    const y = index * rowHeight + (rowHeight - barHeight) / 2;
    const color = axis.subject === 'prompt' ? '#4477aa' : '#228833';
    const mark = axis.parent === null ? '' : parentMark(axis.parent, y);
    return (
      `<text x="${labelWidth - 8}" y="${y + barHeight - 2}" text-anchor="end">${escaped(axis.label)}</text>` +
      `<rect x="${labelWidth}" y="${y}" width="${xOf(axis.score) - labelWidth}" height="${barHeight}" fill="${color}"/>` +
      `<text x="${labelWidth + chartWidth + 8}" y="${y + barHeight - 2}">${twoDecimals(axis.score)}</text>${mark}`
    );
  });
  const legend = parent === null ? '' : ', with a line where the parent stands';
  return [
    `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="Scores by axis${legend}" font-size="13" fill="currentColor">`,
    ...ticks,
    ...rows,
    '</svg>',
  ].join('\n');
}

function parentMark(score: number, y: number): string {
  const x = xOf(score);
  return `<line x1="${x}" x2="${x}" y1="${y - 4}" y2="${y + barHeight + 4}" stroke="currentColor" stroke-width="3"/>`;
}

function xOf(score: number): number {
  return labelWidth + (score / maxScore) * chartWidth;
}
