import { fileExtension } from '#src/domain/documents/formats.ts';
import { decodeText } from '../decode-text.ts';
import type { DocumentParser } from '../parsed-document.ts';
import { renderTable } from '../render-table.ts';
import { notebook, renderNotebook } from './notebook.ts';

/** Notebooks as their text, code and output, lists of flat records as a table, everything else as a nested list. */
export const parseJson: DocumentParser = ({ bytes, fileName, encoding }) => {
  const text = decodeText(bytes, encoding);
  const value = tryParse(text) ?? tryParseLines(text);
  // What only claims to be JSON still has words to find.
  if (value === undefined) return { body: text, title: null };
  if (fileExtension(fileName) === 'ipynb') {
    const parsed = notebook.safeParse(value);
    if (parsed.success) return { body: renderNotebook(parsed.data), title: parsed.data.metadata?.title ?? null };
  }
  return { body: renderRecords(value) ?? renderNested(value, 0).join('\n'), title: null };
};

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A value on each line, as logs and exports are written. */
function tryParseLines(text: string): unknown {
  const values = text.split('\n').filter((line) => line.trim());
  const parsed = values.map(tryParse);
  return parsed.includes(undefined) ? undefined : parsed;
}

function renderRecords(value: unknown): string | null {
  if (!Array.isArray(value) || value.length === 0 || !value.every(isFlatRecord)) return null;
  const header = [...new Set(value.flatMap((record) => Object.keys(record)))];
  return renderTable(
    header,
    value.map((record) => header.map((key) => scalarText(record[key]))),
  );
}

function isFlatRecord(value: unknown): value is Record<string, unknown> {
  return isObject(value) && Object.values(value).every((field) => field === null || typeof field !== 'object');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function scalarText(value: unknown): string {
  return value === undefined || value === null ? '' : String(value);
}

function renderNested(value: unknown, depth: number): string[] {
  const indent = '  '.repeat(depth);
  const entries: [string, unknown][] = isObject(value)
    ? Object.entries(value).map(([key, field]) => [`${key}:`, field])
    : (Array.isArray(value) ? value : [value]).map((item) => ['', item]);
  return entries.flatMap(([label, field]) =>
    typeof field === 'object' && field !== null
      ? [`${indent}- ${label}`.trimEnd(), ...renderNested(field, depth + 1)]
      : [[`${indent}-`, label, scalarText(field).replace(/\s+/g, ' ')].filter(Boolean).join(' ')],
  );
}
