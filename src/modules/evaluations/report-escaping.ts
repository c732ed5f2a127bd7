import { visibleText } from '#src/domain/chat/context-blocks.ts';
import { escapeHtml } from '#src/domain/text/plain-text.ts';

/** As text of HTML and SVG, and as the value of an attribute in quotation marks. */
export function escaped(text: string): string {
  return escapeHtml(visibleText(text));
}

/** As Markdown on one line, in which nothing is formatted, linked, embedded or cut into cells. */
export function inline(text: string): string {
  return visibleText(text)
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/[\\`*_{}[\]<>|~&#!$@]/g, '\\$&')
    .replace(/:(?=\/\/)/g, '\\:')
    .replace(/\bwww\./gi, (prefix) => `${prefix.slice(0, -1)}\\.`);
}

/** As Markdown, as it is: in a fence that no run of backticks in it can close. */
export function codeBlock(text: string): string {
  const shown = visibleText(text).replace(/\r\n?/g, '\n');
  const longest = Array.from(shown.matchAll(/`+/g), ([run]) => run.length).reduce((a, b) => Math.max(a, b), 2);
  const fence = '`'.repeat(longest + 1);
  return `${fence}text\n${shown}\n${fence}`;
}
