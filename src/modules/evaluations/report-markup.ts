import { removeInvisibleCharacters } from '#src/domain/chat/context-blocks.ts';
import { escapeHtml, escapeMarkdown } from '#src/domain/text/plain-text.ts';

export type ReportFormat = 'markdown' | 'json' | 'html';

export type EvaluationReportFile = { fileName: string; mediaType: string; text: string };

const files: Readonly<Record<ReportFormat, { ending: string; mediaType: string }>> = {
  markdown: { ending: 'md', mediaType: 'text/markdown; charset=utf-8' },
  json: { ending: 'json', mediaType: 'application/json; charset=utf-8' },
  html: { ending: 'html', mediaType: 'text/html; charset=utf-8' },
};

/** Returns undefined for an unsupported format. */
export function parseReportFormat(requested: string): ReportFormat | undefined {
  return (['markdown', 'json', 'html'] as const).find((known) => known === requested);
}

export function reportFile(name: string, format: ReportFormat, text: string): EvaluationReportFile {
  const { ending, mediaType } = files[format];
  const safe = name.replaceAll(/[\s\p{Cc}/\\:*?"<>|]+/gu, ' ');
  return { fileName: `${safe.slice(0, 100).toWellFormed().trim()}.${ending}`, mediaType, text };
}

export function reportAsJson(report: object): string {
  return `${JSON.stringify(report, null, 2)}\n`;
}

/** The cells must be escaped. */
export function markdownTable([head = [], ...rows]: string[][]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map((_, index) => (index === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n');
}

/**
 * Forbids all loading and scripts, because users open the HTML report from disk and it contains text written by models.
 */
const contentSecurityPolicy = "default-src 'none'; style-src 'unsafe-inline'";

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

export function htmlPage(title: string, body: readonly string[]): string {
  return [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${contentSecurityPolicy}">`,
    '<meta name="viewport" content="width=device-width">',
    `<title>${escapedHtml(title)}</title>`,
    `<style>${style}</style>`,
    '</head>',
    '<body>',
    `<h1>${escapedHtml(title)}</h1>`,
    ...body,
    '</body>',
    '</html>',
    '',
  ].join('\n');
}

export function twoDecimals(value: number): string {
  return value.toFixed(2);
}

export function escapedHtml(text: string): string {
  return escapeHtml(removeInvisibleCharacters(text));
}

export function escapedMarkdown(text: string): string {
  return escapeMarkdown(removeInvisibleCharacters(text));
}

/** Puts text into a fenced code block; the fence is longer than every run of backticks in the text. */
export function codeBlock(text: string): string {
  const shown = removeInvisibleCharacters(text).replace(/\r\n?/g, '\n');
  const longest = Array.from(shown.matchAll(/`+/g), ([run]) => run.length).reduce((a, b) => Math.max(a, b), 2);
  const fence = '`'.repeat(longest + 1);
  return `${fence}text\n${shown}\n${fence}`;
}
