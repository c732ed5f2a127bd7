import { fileTypeFromBuffer } from 'file-type';
import type { FileFormat } from '#src/domain/document-format.ts';

/** What people call a file, with its article, where the extension of its kind does not say it all. */
const namesByMediaType: Record<string, string> = {
  'application/postscript': 'a PostScript file',
  'application/zip': 'an archive (.zip)',
};

const namesOfFormats: Partial<Record<FileFormat, string>> = {
  doc: 'an old Word document (.doc)',
  eml: 'an email (.eml)',
  epub: 'an e-book (.epub)',
  msg: 'an Outlook message (.msg)',
  odp: 'an OpenDocument presentation (.odp)',
  ods: 'an OpenDocument spreadsheet (.ods)',
  odt: 'an OpenDocument text (.odt)',
  ppt: 'an old PowerPoint presentation (.ppt)',
  pptx: 'a PowerPoint presentation (.pptx)',
  rtf: 'a rich text document (.rtf)',
  xls: 'an old Excel workbook (.xls)',
  xlsx: 'an Excel workbook (.xlsx)',
};

/** What a file of a format without a parser is called; undefined for images, whose first bytes tell more. */
export function nameOfFormat(format: FileFormat): string | undefined {
  return namesOfFormats[format];
}

/** What people call a file of that kind; undefined when the first bytes say nothing. */
export async function nameOfKind(head: Buffer): Promise<string | undefined> {
  // The head alone can end in the middle of what the detector expects: then there is no name, which is no failure.
  const type = await fileTypeFromBuffer(head).catch(() => undefined);
  if (type === undefined) return undefined;
  const [family] = type.mime.split('/');
  const named = namesByMediaType[type.mime];
  if (named !== undefined) return named;
  if (family === 'image') return `an image (.${type.ext})`;
  if (family === 'audio') return `a sound recording (.${type.ext})`;
  if (family === 'video') return `a video (.${type.ext})`;
  return `a file of the type .${type.ext}`;
}
