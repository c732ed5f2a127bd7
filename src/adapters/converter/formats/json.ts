import { stripVTControlCharacters } from 'node:util';
import { z } from 'zod';
import { fileExtension } from '#src/domain/documents/formats.ts';
import { decodeText } from '../decode-text.ts';
import { renderMarkdownTable } from '../office/blocks.ts';
import type { DocumentParser } from '../parsed-document.ts';
import { fencedCodeBlock } from './plain-text.ts';

const lines = z.union([z.string(), z.array(z.string()).transform((parts) => parts.join(''))]);
const output = z.object({
  text: lines.optional(),
  data: z.record(z.string(), z.unknown()).optional(),
  ename: z.string().optional(),
  evalue: z.string().optional(),
});
const cell = z.object({ cell_type: z.string(), source: lines, outputs: z.array(output).optional() });

const notebook = z.object({
  cells: z.array(cell),
  metadata: z
    .object({ language_info: z.object({ name: z.string() }).optional(), title: z.string().optional() })
    .optional(),
});

function renderNotebook({ cells, metadata }: z.infer<typeof notebook>): string {
  const language = metadata?.language_info?.name ?? '';
  return cells
    .flatMap(({ cell_type: type, source, outputs = [] }) =>
      type === 'code' ? [fencedCodeBlock(source, language), ...outputs.map(renderOutput)] : [source],
    )
    .filter(Boolean)
    .join('\n\n');
}

/** Pictures in Jupyter notebook outputs are left out: their text form is only a Python class name. */
function renderOutput({ text, data = {}, ename, evalue }: z.infer<typeof output>): string {
  const markdown = lines.safeParse(data['text/markdown']);
  if (markdown.success) return markdown.data;
  const isPicture = Object.keys(data).some((type) => type.startsWith('image/'));
  const plain = lines.safeParse(isPicture ? undefined : data['text/plain']);
  const error = ename === undefined ? '' : `${ename}: ${evalue ?? ''}`;
  const printed = stripVTControlCharacters(text ?? plain.data ?? error);
  return printed.trim() && fencedCodeBlock(printed, '');
}

/**
 * Reads Jupyter notebooks as text, code and output; lists of flat records as a table; any other JSON as a nested list.
 */
export const parseJson: DocumentParser = ({ bytes, fileName, encoding }) => {
  const text = decodeText(bytes, encoding);
  const value = tryParse(text) ?? tryParseLines(text);
  // Invalid JSON is kept as text, so that its words can be found.
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

function tryParseLines(text: string): unknown {
  const values = text.split('\n').filter((line) => line.trim());
  const parsed = values.map(tryParse);
  return parsed.includes(undefined) ? undefined : parsed;
}

function renderRecords(value: unknown): string | null {
  if (!Array.isArray(value) || value.length === 0 || !value.every(isFlatRecord)) return null;
  const header = [...new Set(value.flatMap((record) => Object.keys(record)))];
  return renderMarkdownTable(
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
