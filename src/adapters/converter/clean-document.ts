import { cleanMarkdown } from './clean-text.ts';
import type { ParsedDocument } from './parsed-document.ts';

/** `body` is cleaned; page n starts at `pageMap[n - 1]`, which is null where the parser gave no pages. */
export type CleanDocument = { body: string; pageMap: number[] | null; title: string | null };

/** Cleaning moves every offset, so pages are cleaned before they are put together. An empty page starts where it would. */
export function cleanDocument({ body, title }: ParsedDocument): CleanDocument {
  if (typeof body === 'string') return { body: cleanMarkdown(body), pageMap: null, title };
  const pageMap: number[] = [];
  const parts: string[] = [];
  let length = 0;
  for (const page of body.map(cleanMarkdown)) {
    const separator = length > 0 && page !== '' ? '\n\n' : '';
    pageMap.push(length + separator.length);
    parts.push(separator, page);
    length += separator.length + page.length;
  }
  return { body: parts.join(''), pageMap, title };
}
