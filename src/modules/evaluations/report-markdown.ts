import type { EvaluationReport, ReportedCaseChange } from './report.ts';
import { codeBlock, inline } from './report-escaping.ts';
import { judgedBy, pairedSentence, reportTitle, signed, twoDecimals } from './report-words.ts';

/** The report as Markdown. What models and people wrote stands in it as text: as code, or with its signs escaped. */
export function reportAsMarkdown(report: EvaluationReport): string {
  const parts = [
    `# ${inline(reportTitle(report))}`,
    judgedBy(report).map(inline).join('  \n'),
    ...(report.notes.length > 0 ? [report.notes.map((note) => `- ${inline(note)}`).join('\n')] : []),
    '## Scores',
    table([
      ['', 'Score', ...parentColumns(report, ['Parent', 'Change'])],
      ...Object.entries(report.averages)
        .filter(([name]) => name !== 'response' || report.cases.length > 0)
        .map(([name, of]) => [`**${name}**`, twoDecimals(of.score), ...parentColumns(report, changeCells(of))]),
      ...report.axes.map((axis) => [
        inline(`${axis.subject}: ${axis.label}`),
        twoDecimals(axis.score),
        ...parentColumns(report, changeCells(axis)),
      ]),
    ]),
    ...(report.paired === null ? [] : [inline(pairedSentence(report.paired))]),
    ...promptWords(report),
    ...(report.cases.length > 0 ? ['## Cases, the weakest first', ...report.cases.flatMap(caseParts)] : []),
    ...failedParts(report),
  ];
  return `${parts.join('\n\n')}\n`;
}

function promptWords({ axes }: EvaluationReport): string[] {
  const items = axes
    .filter(({ rationale, weakness }) => rationale !== '' || weakness !== '')
    .map(({ label, score, rationale, weakness }) =>
      [`- **${inline(label)}** (${twoDecimals(score)}): ${inline(rationale)}`, weaknessOf(weakness)].join(''),
    );
  return items.length > 0 ? ['## The prompt', items.join('\n')] : [];
}

function caseParts(each: ReportedCaseChange): string[] {
  const { number, score, parent, change } = each;
  const compared = parent === null || change === null ? '' : ` (parent ${twoDecimals(parent)}, ${signed(change)})`;
  const words = each.response_scores.map(
    (axis) =>
      `- **${inline(axis.label)}** (${twoDecimals(axis.score)}): ${inline(axis.rationale)}${weaknessOf(axis.weakness)}`,
  );
  return [
    `### Case ${number}: ${twoDecimals(score)}${compared}`,
    'Asked:',
    codeBlock(each.input),
    'Answered:',
    codeBlock(each.generated_response),
    words.join('\n'),
  ];
}

const weaknessOf = (weakness: string) => (weakness === '' ? '' : ` *Weakness:* ${inline(weakness)}`);

function failedParts({ failed_units }: EvaluationReport): string[] {
  if (failed_units.length === 0) return [];
  return ['## Missing', failed_units.map(({ unit, code }) => `- ${inline(unit)}: ${inline(code)}`).join('\n')];
}

function changeCells({ parent, change }: { parent: number | null; change: number | null }): string[] {
  return [parent === null ? '' : twoDecimals(parent), change === null ? '' : signed(change)];
}

function parentColumns({ parent }: EvaluationReport, cells: string[]): string[] {
  return parent === null ? [] : cells;
}

function table([head = [], ...rows]: string[][]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map((_, index) => (index === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n');
}
