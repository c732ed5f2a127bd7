/**
 * Child process `node parser-child.ts LIMITS_AS_JSON`: reads requests as lines of JSON from stdin, one file after the
 * other. For each file it prints `{ ready: true }`, the document or an error, and `{ done: true }`.
 */
import { readFile, stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import type { SourceFormat } from '#src/domain/documents/formats.ts';
import { appError } from '#src/errors.ts';
import { sendFailureToParentProcess, sendToParentProcess } from './child-messages.ts';
import type { ConversionProcessLimits } from './conversion-limits.ts';
import {
  type CleanParsedDocument,
  cleanParsedDocument,
  type DocumentParser,
  textTooLongError,
} from './parsed-document.ts';

/** Parsers, imported on demand for a fast start. PDFs, images, .ppt files and archives are read elsewhere. */
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
} satisfies Record<Exclude<SourceFormat, 'pdf' | 'image' | 'ppt' | 'archive'>, unknown>;

const request = z.strictObject({
  path: z.string(),
  format: z.string(),
  fileName: z.string(),
  encoding: z.string().optional(),
});
const limits: ConversionProcessLimits = JSON.parse(process.argv[2] ?? '{}');

for await (const line of createInterface({ input: process.stdin })) {
  const { format, ...file } = request.parse(JSON.parse(line));
  const parse = await parsers[format]?.();
  if (!parse) throw new Error(`parser-child.ts has no parser for the format ${format}.`);
  sendToParentProcess({ ready: true });
  try {
    sendToParentProcess(await read(parse, file));
    sendToParentProcess({ done: true });
  } catch (error) {
    sendFailureToParentProcess(error, 'The file is damaged: reading it failed.');
  }
}

async function read(
  parse: DocumentParser,
  { path, fileName, encoding }: { path: string; fileName: string; encoding?: string | undefined },
): Promise<CleanParsedDocument> {
  const { size } = await stat(path);
  if (size > limits.sourceBytes)
    throw appError('too_large', {
      detail: `The file has ${size} bytes; at most ${limits.sourceBytes} are allowed for its format.`,
    });
  const bytes = await readFile(path);
  if (bytes.subarray(0, 4).toString('latin1') === 'PK\x03\x04') {
    const { checkZipArchiveLimits } = await import('./zip-guard.ts');
    await checkZipArchiveLimits(path, limits);
  }
  const document = cleanParsedDocument(await parse({ bytes, fileName, encoding }));
  // Checks the text length here and not in the parent process, which would hold several copies of an oversized text.
  if (document.body.length > limits.bodyLength) throw textTooLongError(limits);
  return document;
}
