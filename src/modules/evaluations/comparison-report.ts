import type { ComparedTestCase, ComparisonSummary } from '#src/domain/judging/comparison.ts';
import { summarizeComparisons } from '#src/domain/judging/comparison.ts';
import type { ComparisonSpecification } from '#src/domain/judging/judgement.ts';
import type { AxisScore, ComparisonResultWithKind } from '#src/domain/judging/outcome.ts';
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

type ComparedVersionName = { number: number; title: string };

type ReportedComparison = {
  agentName: string;
  version: ComparedVersionName;
  baseline: ComparedVersionName;
  specification: ComparisonSpecification;
  results: ComparisonResultWithKind;
  finishedAt: Date;
};

type ReportedCase = {
  number: number;
  id: string | null;
  input: string;
  reference_answer: string;
  version_response: string;
  baseline_response: string;
  wins: ReturnType<typeof winsOf>;
  comparisons: Pick<ComparedTestCase['comparisons'][number], 'axis' | 'label' | 'winner' | 'rationale'>[];
};

type ComparisonReport = {
  agent_name: string;
  version: ComparedVersionName;
  baseline: ComparedVersionName;
  judged: {
    evaluator_model: string;
    version_generation_model: string;
    baseline_generation_model: string;
    rubric_version: string;
    with_documents: boolean;
    finished_at: string;
  };
  wins: ReturnType<typeof winsOf>;
  prompts: { axis: string; label: string; version: number; baseline: number }[];
  prompt_averages: { version: number; baseline: number };
  statistics: {
    p_value: number;
    flip_rate: number;
    length_ratio: number | null;
    length_confounded: boolean;
    conclusion: string;
  };
  cases: ReportedCase[];
};

const writers: Readonly<Record<ReportFormat, (report: ComparisonReport) => string>> = {
  markdown: comparisonAsMarkdown,
  json: reportAsJson,
  html: comparisonAsHtml,
};

/** Renders a complete comparison, which has a result for each case of its specification, in the same order. */
export function renderComparisonReportFile(comparison: ReportedComparison, format: ReportFormat): EvaluationReportFile {
  const report = buildComparisonReport(comparison);
  const name = `${report.agent_name} v${report.version.number} against v${report.baseline.number}`;
  return reportFile(name, format, writers[format](report));
}

const winsOf = ({ versionWins, baselineWins, ties }: ComparisonSummary) => ({
  version: versionWins,
  baseline: baselineWins,
  ties,
});

function buildComparisonReport(comparison: ReportedComparison): ComparisonReport {
  const { agentName, version, baseline, specification, results, finishedAt } = comparison;
  const { pValue, flipRate, lengthRatio, lengthConfounded, conclusion } = results.statistics;
  return {
    agent_name: agentName.trim() || 'Untitled Draft',
    version,
    baseline,
    judged: {
      evaluator_model: specification.evaluatorModel,
      version_generation_model: specification.generationModel,
      baseline_generation_model: specification.baselineGenerationModel,
      rubric_version: specification.rubricVersion,
      with_documents: specification.documents !== undefined,
      finished_at: finishedAt.toISOString(),
    },
    wins: winsOf(results.summary),
    prompts: results.versionPromptScores.map(({ axis, label, score }) => ({
      ...{ axis, label, version: score },
      baseline: scoreOf(results.baselinePromptScores, axis),
    })),
    prompt_averages: { version: results.versionPromptAverage, baseline: results.baselinePromptAverage },
    statistics: {
      p_value: pValue,
      flip_rate: flipRate,
      length_ratio: lengthRatio,
      length_confounded: lengthConfounded,
      conclusion,
    },
    cases: results.cases.map((each, index) => ({
      number: index + 1,
      id: specification.cases[index]?.id ?? null,
      input: each.input,
      reference_answer: specification.cases[index]?.expected ?? '',
      version_response: each.versionResponse,
      baseline_response: each.baselineResponse,
      wins: winsOf(summarizeComparisons([each])),
      comparisons: each.comparisons.map(({ axis, label, winner, rationale }) => ({ axis, label, winner, rationale })),
    })),
  };
}

function scoreOf(scores: readonly AxisScore[], axis: string): number {
  return scores.find((each) => each.axis === axis)?.score ?? 0;
}

/** Shows texts of models and users in code blocks or escaped, so that their Markdown cannot change the report. */
function comparisonAsMarkdown(report: ComparisonReport): string {
  const parts = [
    `# ${escapedMarkdown(titleOf(report))}`,
    factsOf(report).map(escapedMarkdown).join('  \n'),
    notesOf(report)
      .map((note) => `- ${escapedMarkdown(note)}`)
      .join('\n'),
    '## Wins',
    markdownTable([
      ['', 'Version', 'Baseline', 'Ties'],
      ['all verdicts', ...figures(report.wins)],
      ...report.cases.map((each) => [escapedMarkdown(caseName(each)), ...figures(each.wins)]),
    ]),
    '## Prompts',
    markdownTable([
      ['', 'Version', 'Baseline'],
      ...promptRows(report).map(([label, ...scores]) => [escapedMarkdown(label), ...scores]),
    ]),
    ...report.cases.flatMap((each) => [
      `## ${escapedMarkdown(caseName(each))}`,
      ...textsOf(each).flatMap(([name, text]) => [`${name}:`, codeBlock(text)]),
      each.comparisons
        .map(
          ({ label, winner, rationale }) =>
            `- **${escapedMarkdown(label)}**: ${winnerName(winner)}. ${escapedMarkdown(rationale)}`,
        )
        .join('\n'),
    ]),
  ];
  return `${parts.join('\n\n')}\n`;
}

function comparisonAsHtml(report: ComparisonReport): string {
  const cell = (value: string) => `<td class="figure">${value}</td>`;
  const heads = (names: string[]) =>
    `<tr><th></th>${names.map((name) => `<th class="figure">${name}</th>`).join('')}</tr>`;
  const rows = (all: readonly (readonly [string, ...string[]])[]) =>
    all.map(([name, ...values]) => `<tr><td>${escapedHtml(name)}</td>${values.map(cell).join('')}</tr>`).join('\n');
  return htmlPage(titleOf(report), [
    `<p>${factsOf(report).map(escapedHtml).join('<br>\n')}</p>`,
    ...notesOf(report).map((note) => `<p class="note">${escapedHtml(note)}</p>`),
    '<h2>Wins</h2>',
    `<table>\n${heads(['Version', 'Baseline', 'Ties'])}`,
    rows([
      ['all verdicts', ...figures(report.wins)],
      ...report.cases.map((each) => [caseName(each), ...figures(each.wins)] as const),
    ]),
    '</table>',
    '<h2>Prompts</h2>',
    `<table>\n${heads(['Version', 'Baseline'])}`,
    rows(promptRows(report)),
    '</table>',
    ...report.cases.flatMap((each) => [
      `<h2>${escapedHtml(caseName(each))}</h2>`,
      ...textsOf(each).map(([name, text]) => `<p>${name}:</p><pre>${escapedHtml(text)}</pre>`),
      `<ul>${each.comparisons
        .map(
          ({ label, winner, rationale }) =>
            `<li><strong>${escapedHtml(label)}</strong>: ${winnerName(winner)}. ${escapedHtml(rationale)}</li>`,
        )
        .join('\n')}</ul>`,
    ]),
  ]);
}

function titleOf({ agent_name, version, baseline }: ComparisonReport): string {
  return `${agent_name}: version ${version.number} (${version.title}) against version ${baseline.number} (${baseline.title})`;
}

function factsOf({ judged }: ComparisonReport): string[] {
  const { version_generation_model: version, baseline_generation_model: baseline } = judged;
  const models = version === baseline ? version : `${version} for the version, ${baseline} for the baseline`;
  return [
    `Judge: ${judged.evaluator_model}, rubric ${judged.rubric_version}`,
    `Answers by: ${models}${judged.with_documents ? ', with documents' : ''}`,
    `Finished: ${judged.finished_at}`,
    'In reasons, reply A is that of the version and reply B that of the baseline.',
  ];
}

function notesOf({ statistics, cases }: ComparisonReport): string[] {
  if (cases.length === 0) return ['Only the prompts were compared: the request had no cases.'];
  const length = 'The longer replies win, and are much longer: length alone could explain the result.';
  return [statistics.conclusion, ...(statistics.length_confounded ? [length] : [])];
}

function caseName({ number, id }: ReportedCase): string {
  return `Case ${number}${id === null ? '' : `, ${id}`}`;
}

function figures({ version, baseline, ties }: ComparisonReport['wins']): string[] {
  return [version, baseline, ties].map(String);
}

function promptRows({ prompts, prompt_averages }: ComparisonReport): [string, string, string][] {
  const average = { label: 'average', ...prompt_averages };
  return [average, ...prompts].map(({ label, version, baseline }) => [
    label,
    twoDecimals(version),
    twoDecimals(baseline),
  ]);
}

function textsOf(each: ReportedCase): [name: string, text: string][] {
  const texts: [string, string][] = [
    ['Asked', each.input],
    ['Reference answer', each.reference_answer],
    ['The version answered', each.version_response],
    ['The baseline answered', each.baseline_response],
  ];
  return texts.filter(([name, text]) => name !== 'Reference answer' || text !== '');
}

function winnerName(winner: 'version' | 'baseline' | 'tie'): string {
  return winner === 'tie' ? 'tie' : `the ${winner} wins`;
}
