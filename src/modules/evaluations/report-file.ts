import type { EvaluationReport } from './report.ts';
import { reportAsHtml } from './report-html.ts';
import { reportAsMarkdown } from './report-markdown.ts';

export const reportFormats = ['markdown', 'json', 'html'] as const;

export type ReportFormat = (typeof reportFormats)[number];

export type ReportFile = { fileName: string; mediaType: string; text: string };

const formats: Readonly<
  Record<ReportFormat, { ending: string; mediaType: string; write(of: EvaluationReport): string }>
> = {
  markdown: { ending: 'md', mediaType: 'text/markdown; charset=utf-8', write: reportAsMarkdown },
  json: {
    ending: 'json',
    mediaType: 'application/json; charset=utf-8',
    write: (report) => `${JSON.stringify(report, null, 2)}\n`,
  },
  html: { ending: 'html', mediaType: 'text/html; charset=utf-8', write: reportAsHtml },
};

export function reportFile(report: EvaluationReport, format: ReportFormat): ReportFile {
  const { ending, mediaType, write } = formats[format];
  const name = `${report.agent_name} v${report.version.number} evaluation`.replaceAll(/[\s\p{Cc}/\\:*?"<>|]+/gu, ' ');
  return { fileName: `${name.slice(0, 100).toWellFormed().trim()}.${ending}`, mediaType, text: write(report) };
}
