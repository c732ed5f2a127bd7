import type { EvaluationReport, ReportedCaseChange } from './report.ts';
import { scoreChart } from './report-chart.ts';
import { escaped } from './report-escaping.ts';
import { judgedBy, pairedSentence, reportTitle, signed, twoDecimals } from './report-words.ts';

/** Nothing may be fetched or run: the page is to be opened from a disk, with texts of models in it. */
const policy = "default-src 'none'; style-src 'unsafe-inline'";

const style = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
td.figure, th.figure { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: #8882; overflow-wrap: anywhere; padding: .6rem; white-space: pre-wrap; }
.note { border-left: 4px solid #c80; margin: .5rem 0; padding-left: .6rem; }
svg { height: auto; width: 100%; }
`;

/** The report as one page that needs nothing besides itself. */
export function reportAsHtml(report: EvaluationReport): string {
  const title = escaped(reportTitle(report));
  return [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    '<meta name="viewport" content="width=device-width">',
    `<title>${title}</title>`,
    `<style>${style}</style>`,
    '</head>',
    '<body>',
    `<h1>${title}</h1>`,
    `<p>${judgedBy(report).map(escaped).join('<br>\n')}</p>`,
    ...report.notes.map((note) => `<p class="note">${escaped(note)}</p>`),
    '<h2>Scores</h2>',
    scoreChart(report),
    scoreTable(report),
    report.paired === null ? '' : `<p>${escaped(pairedSentence(report.paired))}</p>`,
    ...(report.cases.length > 0 ? ['<h2>Cases, the weakest first</h2>', ...report.cases.map(caseSection)] : []),
    failedList(report),
    '</body>',
    '</html>',
    '',
  ].join('\n');
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
    return `<tr><td>${escaped(label)}</td>${figures.join('')}<td>${wordsOf({ rationale, weakness })}</td></tr>`;
  });
  const heads = ['Score', ...(hasParent ? ['Parent', 'Change'] : [])].map((head) => `<th class="figure">${head}</th>`);
  return `<table>\n<tr><th></th>${heads.join('')}<th></th></tr>\n${rows.join('\n')}\n</table>`;
}

function wordsOf({ rationale, weakness }: { rationale: string; weakness: string }): string {
  return escaped(rationale) + (weakness === '' ? '' : ` <em>Weakness:</em> ${escaped(weakness)}`);
}

function caseSection(each: ReportedCaseChange): string {
  const { number, score, parent, change } = each;
  const compared = parent === null || change === null ? '' : ` (parent ${twoDecimals(parent)}, ${signed(change)})`;
  const axes = each.response_scores.map(
    (axis) => `<li><strong>${escaped(axis.label)}</strong> (${twoDecimals(axis.score)}): ${wordsOf(axis)}</li>`,
  );
  return [
    `<h3>Case ${number}: ${twoDecimals(score)}${compared}</h3>`,
    `<p>Asked:</p><pre>${escaped(each.input)}</pre>`,
    `<p>Answered:</p><pre>${escaped(each.generated_response)}</pre>`,
    `<ul>${axes.join('\n')}</ul>`,
  ].join('\n');
}

function failedList({ failed_units }: EvaluationReport): string {
  if (failed_units.length === 0) return '';
  const items = failed_units.map(({ unit, code }) => `<li>${escaped(unit)}: ${escaped(code)}</li>`);
  return `<h2>Missing</h2><ul>${items.join('')}</ul>`;
}
