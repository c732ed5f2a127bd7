import { fileExtension, type SourceFormat, textFormat } from './document-format.ts';

/**
 * What a file probably is, from its name and the media type that the client gave: shown until the content has been
 * looked at. Null when neither says.
 */
export function guessFormat(file: { fileName: string; mediaType: string | null }): SourceFormat | null {
  const extension = fileExtension(file.fileName);
  const mediaType = file.mediaType?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (extension === 'pdf' || mediaType === 'application/pdf') return 'pdf';
  if (extension === 'docx' || mediaType.endsWith('.wordprocessingml.document')) return 'docx';
  if (/^x?html?$/.test(extension) || mediaType === 'text/html') return 'html';
  const format = textFormat({ head: '', fileName: file.fileName, declaredMediaType: mediaType });
  if (format !== 'text') return format;
  return extension === 'txt' || mediaType.startsWith('text/') ? 'text' : null;
}

const mediaTypes: Record<SourceFormat, string> = {
  text: 'text/plain',
  markdown: 'text/markdown',
  code: 'text/plain',
  html: 'text/html',
  csv: 'text/csv',
  json: 'application/json',
  pdf: 'application/pdf',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
};

/** The media type under which an original is given back: that of its format, else none in particular. */
export function mediaTypeOf(format: string | null): string {
  return (Object.entries(mediaTypes).find(([name]) => name === format) ?? [])[1] ?? 'application/octet-stream';
}
