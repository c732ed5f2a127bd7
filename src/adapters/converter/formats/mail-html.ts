import { DOMParser, type HTMLElement } from 'linkedom';
import { parse, serialize } from 'parse5';
import { checkNesting } from '../html-nesting.ts';
import { htmlToMarkdown } from '../html-to-markdown.ts';

const unseen = 'script, style, noscript, template, svg, iframe, title, [hidden]';
const hiding = /display\s*:\s*none|visibility\s*:\s*hidden/i;

/** The text that a reader of the mail sees: mails hide lines for previews, and lay themselves out in tables. */
export function mailHtmlToMarkdown(html: string): string {
  checkNesting(html);
  const { body } = new DOMParser().parseFromString(serialize(parse(html)), 'text/html');
  for (const element of body.querySelectorAll(unseen)) element.remove();
  for (const element of body.querySelectorAll('[style]'))
    if (hiding.test(element.getAttribute('style') ?? '')) element.remove();
  for (const table of body.querySelectorAll('table')) if (isLayout(table)) unwrapTable(table);
  return htmlToMarkdown(body.innerHTML).trim();
}

/** A table of data has several columns and no tables in its cells. */
function isLayout(table: HTMLElement): boolean {
  if (table.getAttribute('role') === 'presentation' || table.querySelector('table')) return true;
  return [...table.querySelectorAll('tr')].every((row) => row.querySelectorAll('td, th').length <= 1);
}

function unwrapTable(table: HTMLElement): void {
  const cells = [...table.querySelectorAll('td, th')].filter((cell) => cell.closest('table') === table);
  const blocks = cells.map((cell) => {
    const block = table.ownerDocument.createElement('div');
    block.append(...cell.childNodes);
    return block;
  });
  table.replaceWith(...blocks);
}
