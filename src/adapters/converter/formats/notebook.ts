import { stripVTControlCharacters } from 'node:util';
import { z } from 'zod';
import { fenced } from './plain-text.ts';

const lines = z.union([z.string(), z.array(z.string()).transform((parts) => parts.join(''))]);
const output = z.object({
  text: lines.optional(),
  data: z.record(z.string(), z.unknown()).optional(),
  ename: z.string().optional(),
  evalue: z.string().optional(),
});
const cell = z.object({ cell_type: z.string(), source: lines, outputs: z.array(output).optional() });

/** A Jupyter notebook (nbformat 4). */
export const notebook = z.object({
  cells: z.array(cell),
  metadata: z
    .object({ language_info: z.object({ name: z.string() }).optional(), title: z.string().optional() })
    .optional(),
});

/** Texts as they are, code in blocks, and below it what it has printed. */
export function renderNotebook({ cells, metadata }: z.infer<typeof notebook>): string {
  const language = metadata?.language_info?.name ?? '';
  return cells
    .flatMap(({ cell_type: type, source, outputs = [] }) =>
      type === 'code' ? [fenced(source, language), ...outputs.map(renderOutput)] : [source],
    )
    .filter(Boolean)
    .join('\n\n');
}

/** Of a picture there is no text but the name of its class. */
function renderOutput({ text, data = {}, ename, evalue }: z.infer<typeof output>): string {
  const markdown = lines.safeParse(data['text/markdown']);
  if (markdown.success) return markdown.data;
  const isPicture = Object.keys(data).some((type) => type.startsWith('image/'));
  const plain = lines.safeParse(isPicture ? undefined : data['text/plain']);
  const error = ename === undefined ? '' : `${ename}: ${evalue ?? ''}`;
  const printed = stripVTControlCharacters(text ?? plain.data ?? error);
  return printed.trim() && fenced(printed, '');
}
