import { maxJudgeScore } from '#src/domain/judging/rubric.ts';
import type { CaseScoreChange, EvaluationReport } from './report.ts';
import {
  codeBlock,
  type EvaluationReportFile,
  escapedHtml,
  escapedMarkdown,
  htmlPage,
  markdownTable,
  type ReportFormat,
  reportAsJson,
  reportFile,
  twoDecimals,
} from './report-markup.ts';

const writers: Readonly<Record<ReportFormat, (report: EvaluationReport) => string>> = {
  markdown: reportAsMarkdown,
  json: reportAsJson,
  html: reportAsHtml,
};

export function renderEvaluationReportFile(report: EvaluationReport, format: ReportFormat): EvaluationReportFile {
  const name = `${report.agent_name} v${report.version.number} evaluation`;
  return reportFile(name, format, writers[format](report));
}

type AxisWords = { label: string; score: number; rationale: string; weakness: string };

/** Shows texts of models and users in code blocks or escaped, so that their Markdown cannot change the report. */
function reportAsMarkdown(report: EvaluationReport): string {
  const parts = [
    `# ${escapedMarkdown(reportTitle(report))}`,
    judgingFacts(report).map(escapedMarkdown).join('  \n'),
    ...(report.notes.length > 0 ? [report.notes.map((note) => `- ${escapedMarkdown(note)}`).join('\n')] : []),
    '## Scores',
    markdownTable([
      ['', 'Score', ...parentColumns(report, ['Parent', 'Change'])],
      ...Object.entries(report.averages)
        .filter(([name]) => name !== 'response' || report.cases.length > 0)
        .map(([name, of]) => [`**${name}**`, twoDecimals(of.score), ...parentColumns(report, changeCells(of))]),
      ...report.axes.map((axis) => [
        escapedMarkdown(`${axis.subject}: ${axis.label}`),
        twoDecimals(axis.score),
        ...parentColumns(report, changeCells(axis)),
      ]),
    ]),
    ...(report.paired === null ? [] : [escapedMarkdown(pairedSentence(report.paired))]),
    ...promptRationales(report),
    ...(report.cases.length > 0 ? ['## Cases, the weakest first', ...report.cases.flatMap(caseParts)] : []),
    ...failedParts(report),
  ];
  return `${parts.join('\n\n')}\n`;
}

function promptRationales({ axes }: EvaluationReport): string[] {
  const items = axes.filter(({ rationale, weakness }) => rationale !== '' || weakness !== '').map(axisItem);
  return items.length > 0 ? ['## The prompt', items.join('\n')] : [];
}

function caseParts(each: CaseScoreChange): string[] {
  const words = each.response_scores.map(axisItem);
  return [
    `### ${escapedMarkdown(caseTitle(each))}`,
    'Asked:',
    codeBlock(each.input),
    ...(each.reference_answer === '' ? [] : ['Reference answer:', codeBlock(each.reference_answer)]),
    'Answered:',
    codeBlock(each.generated_response),
    words.join('\n'),
  ];
}

function caseTitle({ number, id, score, parent, change }: CaseScoreChange): string {
  const compared = parent === null || change === null ? '' : ` (parent ${twoDecimals(parent)}, ${signed(change)})`;
  return `Case ${number}${id === null ? '' : `, ${id}`}: ${twoDecimals(score)}${compared}`;
}

function axisItem({ label, score, rationale, weakness }: AxisWords): string {
  const addition = weakness === '' ? '' : ` *Weakness:* ${escapedMarkdown(weakness)}`;
  return `- **${escapedMarkdown(label)}** (${twoDecimals(score)}): ${escapedMarkdown(rationale)}${addition}`;
}

function failedParts({ failed_units }: EvaluationReport): string[] {
  if (failed_units.length === 0) return [];
  return [
    '## Missing',
    failed_units.map(({ unit, code }) => `- ${escapedMarkdown(unit)}: ${escapedMarkdown(code)}`).join('\n'),
  ];
}

function changeCells({ parent, change }: { parent: number | null; change: number | null }): string[] {
  return [parent === null ? '' : twoDecimals(parent), change === null ? '' : signed(change)];
}

function parentColumns({ parent }: EvaluationReport, cells: string[]): string[] {
  return parent === null ? [] : cells;
}

function reportAsHtml(report: EvaluationReport): string {
  return htmlPage(reportTitle(report), [
    `<p>${judgingFacts(report).map(escapedHtml).join('<br>\n')}</p>`,
    ...report.notes.map((note) => `<p class="note">${escapedHtml(note)}</p>`),
    '<h2>Scores</h2>',
    scoreChart(report),
    scoreTable(report),
    report.paired === null ? '' : `<p>${escapedHtml(pairedSentence(report.paired))}</p>`,
    ...(report.cases.length > 0 ? ['<h2>Cases, the weakest first</h2>', ...report.cases.map(caseSection)] : []),
    failedList(report),
  ]);
}

function scoreTable(report: EvaluationReport): string {
  const averages = Object.entries(report.averages)
    .filter(([name]) => name !== 'response' || report.cases.length > 0)
    .map(([name, of]) => ({ ...of, label: `${name} average`, rationale: '', weakness: '' }));
  const hasParent = report.parent !== null;
  const rows = [...averages, ...report.axes].map(({ label, score, parent, change, rationale, weakness }) => {
    const compared = hasParent
      ? [parent === null ? null : twoDecimals(parent), change === null ? null : signed(change)]
      : [];
    const figures = [twoDecimals(score), ...compared].map((value) => `<td class="figure">${value ?? ''}</td>`);
    const words = rationaleHtml({ rationale, weakness });
    return `<tr><td>${escapedHtml(label)}</td>${figures.join('')}<td>${words}</td></tr>`;
  });
  const heads = ['Score', ...(hasParent ? ['Parent', 'Change'] : [])].map((head) => `<th class="figure">${head}</th>`);
  return `<table>\n<tr><th></th>${heads.join('')}<th></th></tr>\n${rows.join('\n')}\n</table>`;
}

function rationaleHtml({ rationale, weakness }: { rationale: string; weakness: string }): string {
  return escapedHtml(rationale) + (weakness === '' ? '' : ` <em>Weakness:</em> ${escapedHtml(weakness)}`);
}

function caseSection(each: CaseScoreChange): string {
  const { reference_answer: reference } = each;
  const axes = each.response_scores.map(
    (axis) =>
      `<li><strong>${escapedHtml(axis.label)}</strong> (${twoDecimals(axis.score)}): ${rationaleHtml(axis)}</li>`,
  );
  return [
    `<h3>${escapedHtml(caseTitle(each))}</h3>`,
    `<p>Asked:</p><pre>${escapedHtml(each.input)}</pre>`,
    ...(reference === '' ? [] : [`<p>Reference answer:</p><pre>${escapedHtml(reference)}</pre>`]),
    `<p>Answered:</p><pre>${escapedHtml(each.generated_response)}</pre>`,
    `<ul>${axes.join('\n')}</ul>`,
  ].join('\n');
}

function failedList({ failed_units }: EvaluationReport): string {
  if (failed_units.length === 0) return '';
  const items = failed_units.map(({ unit, code }) => `<li>${escapedHtml(unit)}: ${escapedHtml(code)}</li>`);
  return `<h2>Missing</h2><ul>${items.join('')}</ul>`;
}

const rowHeight = 28;
const barHeight = 14;
const labelWidth = 260;
const chartWidth = 400;
const figureWidth = 60;

function scoreChart({ axes, parent }: EvaluationReport): string {
  const height = axes.length * rowHeight + rowHeight;
  const width = labelWidth + chartWidth + figureWidth;
  const ticks = Array.from({ length: maxJudgeScore + 1 }, (_, score) => {
    const x = chartX(score);
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
      `<text x="${labelWidth - 8}" y="${y + barHeight - 2}" text-anchor="end">${escapedHtml(axis.label)}</text>` +
      `<rect x="${labelWidth}" y="${y}" width="${chartX(axis.score) - labelWidth}" height="${barHeight}" fill="${color}"/>` +
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
  const x = chartX(score);
  return `<line x1="${x}" x2="${x}" y1="${y - 4}" y2="${y + barHeight + 4}" stroke="currentColor" stroke-width="3"/>`;
}

function chartX(score: number): number {
  return labelWidth + (score / maxJudgeScore) * chartWidth;
}

function reportTitle({ agent_name, version }: EvaluationReport): string {
  return `Evaluation of ${agent_name}, version ${version.number}: ${version.title}`;
}

function judgingFacts({ judged, parent, ci95 }: EvaluationReport): string[] {
  const { rubric, evaluator_model, generation_model, rubric_version, samples, with_documents, finished_at } = judged;
  const facts: [string, string | null][] = [
    ['Judge', evaluator_model],
    ['Answers by', generation_model && `${generation_model}${with_documents ? ', with documents' : ''}`],
    ['Rubric', rubric && [rubric, rubric_version, samples && `${samples} a verdict`].filter(Boolean).join(', ')],
    ['Finished', finished_at],
    ['Beside', parent && `version ${parent.number}: ${parent.title}`],
    ['Mean of the replies, 95 %', ci95 && `${twoDecimals(ci95[0])} to ${twoDecimals(ci95[1])}`],
  ];
  const known = facts.flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}`]));
  return [...known, 'Scores are from 0 to 5.'];
}

function pairedSentence({ cases, mean_change, ci95, p_value }: NonNullable<EvaluationReport['paired']>): string {
  const interval = ci95 === null ? '' : `, with 95 % between ${signed(ci95[0])} and ${signed(ci95[1])}`;
  const count = cases === 1 ? 'one case' : `${cases} cases`;
  const verdict =
    p_value > 0.05 ? 'no significant change' : `a significant change for the ${mean_change > 0 ? 'better' : 'worse'}`;
  return `Over the ${count} that both versions have answered the mean changes by ${signed(mean_change)}${interval}: ${verdict} (sign test, p = ${p_value.toFixed(3)}).`;
}

function signed(value: number): string {
  return `${value > 0 ? '+' : ''}${twoDecimals(value)}`.replace('-', '−');
}
