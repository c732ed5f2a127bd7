/**
 * The process in which formats are parsed: `node parser-child.ts FORMAT FILE FILE_NAME LIMITS_AS_JSON [ENCODING]`.
 * Writes a line `{"ready":true}` when everything is loaded, then one with the result or with an error code.
 */
import { readFile, stat } from 'node:fs/promises';
import type { SourceFormat } from '#src/domain/documents/formats.ts';
import { appError } from '#src/errors.ts';
import { say, sayFailure } from './child-messages.ts';
import type { ConversionLimits } from './conversion-limits.ts';
import { cleanDocument, type DocumentParser } from './parsed-document.ts';

/** Loaded one at a time: a start costs what its format needs. Pages that are drawn or printed are read elsewhere. */
const parsers: Record<string, () => Promise<DocumentParser>> = {
  text: async () => (await import('./formats/plain-text.ts')).parsePlainText,
  markdown: async () => (await import('./formats/plain-text.ts')).parsePlainText,
  code: async () => (await import('./formats/plain-text.ts')).parseCode,
  html: async () => (await import('./formats/html.ts')).parseHtml,
  csv: async () => (await import('./formats/csv.ts')).parseCsv,
  json: async () => (await import('./formats/json.ts')).parseJson,
  docx: async () => (await import('./formats/docx.ts')).parseDocx,
  pptx: async () => (await import('./formats/pptx.ts')).parsePptx,
  xlsx: async () => (await import('./formats/workbook.ts')).parseExcel,
  xls: async () => (await import('./formats/workbook.ts')).parseExcel,
  ods: async () => (await import('./formats/workbook.ts')).parseOds,
  odt: async () => (await import('./formats/opendocument.ts')).parseOdt,
  odp: async () => (await import('./formats/opendocument.ts')).parseOdp,
  epub: async () => (await import('./formats/epub.ts')).parseEpub,
  eml: async () => (await import('./formats/mail.ts')).parseEml,
  msg: async () => (await import('./formats/mail.ts')).parseMsg,
  rtf: async () => (await import('./formats/rtf.ts')).parseRtf,
  doc: async () => (await import('./formats/doc.ts')).parseDoc,
} satisfies Record<Exclude<SourceFormat, 'pdf' | 'image' | 'ppt'>, unknown>;

const [format = '', path = '', fileName = '', limitsText = '{}', encoding] = process.argv.slice(2);
const limits: ConversionLimits = JSON.parse(limitsText);
const parse = await parsers[format]?.();
if (!parse) throw new Error(`No parser for ${format}`);
say({ ready: true });
try {
  const { size } = await stat(path);
  if (size > limits.sourceBytes) throw appError('too_large', { detail: 'The file is larger than this format may be.' });
  const bytes = await readFile(path);
  // Most files are no archives: the guard is loaded for those that are.
  if (bytes.subarray(0, 4).toString('latin1') === 'PK\x03\x04') {
    const { checkZip } = await import('./zip-guard.ts');
    await checkZip(path, limits);
  }
  const document = cleanDocument(await parse({ bytes, fileName, encoding }));
  // Whoever is told of it would have to hold it several times over, only to refuse it.
  if (document.body.length > limits.bodyLength)
    throw appError('too_large', { detail: 'The file holds too much text.' });
  say(document);
} catch (error) {
  sayFailure(error, 'The file is damaged: reading it failed.');
}
