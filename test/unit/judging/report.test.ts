import { expect } from 'chai';
import { DOMParser } from 'linkedom';
import { marked } from 'marked';
import { toEvalScores } from '#src/domain/judging/eval-scores.ts';
import { buildEvaluationResult } from '#src/domain/judging/outcome.ts';
import { axesOfPromptScores, axesOfReplyScores, rubricOfAxis } from '#src/domain/judging/rubric.ts';
import { buildEvaluationReport, type EvaluationReport } from '#src/modules/evaluations/report.ts';
import { renderEvaluationReportFile } from '#src/modules/evaluations/report-formats.ts';

function scoresOf(averages: readonly number[], { words = 'So it is.', evaluatorModel = 'gpt-4o' } = {}) {
  const scored = (axis: (typeof axesOfPromptScores | typeof axesOfReplyScores)[number], score: number) => {
    const said = { rationale: words, weakness: words, severity: 'cosmetic' as const };
    return { axis, label: rubricOfAxis(axis).label, score, ...said };
  };
  const cases = averages.map((responseAverage, index) => ({
    ...{ input: `Question ${index + 1}: ${words}`, generatedResponse: words, hasReference: false, responseAverage },
    responseScores: axesOfReplyScores.slice(0, 4).map((axis) => scored(axis, responseAverage)),
  }));
  const promptScores = axesOfPromptScores.map((axis) => scored(axis, 3));
  return toEvalScores({
    ...{ result: buildEvaluationResult(promptScores, cases), rubric: 'anchored', rubricVersion: 'r1', evaluatorModel },
    ...{ generationModel: 'claude-sonnet-4', withDocuments: false, failedUnits: [], parent: null },
    finishedAt: new Date('2026-11-22T10:00:00Z'),
  });
}

const version = (versionNumber: number, evalScores: unknown, agentName = 'Lena') => {
  return { versionNumber, title: 'Shorter', agentName, evalScores, evalStatus: 'completed' as const };
};

function reportOf(evalScores: unknown, parentScores?: unknown, agentName?: string): EvaluationReport {
  const parent = parentScores === undefined ? null : version(1, parentScores);
  const report = buildEvaluationReport(version(2, evalScores, agentName), parent);
  if (report === null) throw new Error('no report');
  return report;
}

const parse = (html: string) => new DOMParser().parseFromString(html, 'text/html');

describe('the report on an evaluation', () => {
  it('lists the weakest cases first, with their position in the run', () => {
    const { cases } = reportOf(scoresOf([4, 1, 3, 1]));
    expect(cases.map(({ number, score }) => `${number}: ${score}`)).deep.equal(['2: 1', '4: 1', '3: 3', '1: 4']);
  });

  it('compares every axis and case with the parent version', () => {
    const report = reportOf(scoresOf([4, 3, 2]), scoresOf([2, 2, 2]));
    expect(report.averages.response).deep.equal({ score: 3, parent: 2, change: 1 });
    expect(report.axes.map(({ axis }) => axis)).deep.equal([...axesOfPromptScores, ...axesOfReplyScores.slice(0, 4)]);
    expect(report.axes.find(({ axis }) => axis === 'clarity')).include({ score: 3, parent: 2, change: 1 });
    expect(report.cases.map(({ change }) => change)).deep.equal([0, 1, 2]);
    expect(report.paired).deep.equal({ cases: 3, mean_change: 1, ci95: [-1.48, 3.48], p_value: 0.5 });
  });

  it('omits a parent version without scores, and omits the scores of replies if there are no cases', () => {
    expect(reportOf(scoresOf([]))).deep.include({ parent: null, paired: null });
    expect(reportOf(scoresOf([3]), { of: 'another kind' })).include({ parent: null, paired: null });
    const promptOnly = reportOf(scoresOf([]), scoresOf([2]));
    expect(promptOnly.axes).length(6);
    expect(promptOnly.averages.overall.score).equal(3);
  });

  it('has notes on missing verdicts, a possible bias of the judge, and a parent version that another model judged', () => {
    const report = reportOf(
      { ...scoresOf([3]), same_family: true, length_confounded: true, failed_units: [{ unit: 'case 2', code: 'x' }] },
      scoresOf([3], { evaluatorModel: 'another' }),
    );
    expect(report.notes).length(4);
    expect(reportOf(scoresOf([3]), scoresOf([2])).notes).deep.equal([]);
    const fromDocuments = { ...scoresOf([3]), with_documents: true };
    expect(reportOf(fromDocuments, fromDocuments).notes).deep.equal([]);
    expect(reportOf(fromDocuments, scoresOf([2])).notes[0]).match(
      /^Only one of the two versions answered with documents/,
    );
    for (const evalStatus of [null, 'failed', 'running'] as const) {
      const report = buildEvaluationReport({ ...version(2, scoresOf([3])), evalStatus }, null);
      expect(report?.notes).deep.equal(['These scores came with the commit, or are of an earlier evaluation.']);
    }
  });

  it('accepts incomplete scores that a client committed, and rejects values that are not scores', () => {
    const { prompt_scores, prompt_average, overall_average } = scoresOf([]);
    const preview = { prompt_scores, prompt_average, overall_average, mine: true };
    expect(reportOf(preview).judged.evaluator_model).equal(null);
    for (const none of [null, 'x', {}, { prompt_scores: 'x' }, { ...preview, prompt_average: 17 }]) {
      expect(buildEvaluationReport(version(1, none), null), JSON.stringify(none)).equal(null);
    }
  });
});

describe('the files of an evaluation report', () => {
  const hostile = [
    '<script>alert(1)</script><img src=x onerror=alert(1)>',
    '](javascript:alert(1)) [x](http://evil.example/?q=1) ![p](https://evil.example/p.png)',
    ...['| cell | ` code ` ```` fence', '\n```\n# heading\n<iframe src="https://evil.example">\n'],
    ...['</pre></svg></title></style>"\' onload="x" &lt;b&gt; \u202e\u200b', 'www.evil.example a@evil.example'],
  ].join('\n');

  it('contain escaped text of models and users in HTML and Markdown', () => {
    expect(renderEvaluationReportFile(reportOf(scoresOf([1]), undefined, 'Lena/../<x>'), 'html').fileName).equal(
      'Lena .. x v2 evaluation.html',
    );
    const report = reportOf(scoresOf([1], { words: hostile }), undefined, hostile);
    const html = renderEvaluationReportFile(report, 'html').text;
    const markdown = marked.parse(renderEvaluationReportFile(report, 'markdown').text, { async: false });
    const [page, rendered] = [parse(html), parse(`<html><body>${markdown}</body></html>`)];
    for (const forbidden of ['script', 'img', 'iframe', 'a', 'b']) {
      expect(page.querySelectorAll(forbidden), forbidden).length(0);
      expect(rendered.querySelectorAll(forbidden), forbidden).length(0);
    }
    expect(page.querySelectorAll('link')).length(0);
    const attributes = [...page.querySelectorAll('*')].flatMap((node) => [...node.attributes]);
    expect(attributes.filter(({ name }) => /^(on.*|src|href)$/.test(name))).deep.equal([]);
    expect(page.querySelectorAll('pre')[1]?.textContent).include('<script>alert(1)</script>').include('"\' onload');
    expect(html).not.match(/[\u202e\u200b]/);

    const count = (selector: string) => rendered.querySelectorAll(selector).length;
    expect([count('h1'), count('pre'), count('p code')]).deep.equal([1, 2, 0]);
    expect(rendered.querySelectorAll('pre')[1]?.textContent).include('<iframe src="https://evil.example">');
    for (const row of rendered.querySelectorAll('tr')) expect(row.querySelectorAll('th, td')).length(2);
    expect(rendered.body.textContent).include('<script>alert(1)</script>');
  });
});
