import { bareMediaType, fileExtension, type SourceFormat, textFormat } from './formats.ts';

const officePackage = 'application/vnd.openxmlformats-officedocument';
const openDocument = 'application/vnd.oasis.opendocument';

/** Media type by format. That of an image depends on its file name. */
const mediaTypes: Record<Exclude<SourceFormat, 'image'>, string> = {
  text: 'text/plain',
  markdown: 'text/markdown',
  code: 'text/plain',
  html: 'text/html',
  csv: 'text/csv',
  json: 'application/json',
  pdf: 'application/pdf',
  docx: `${officePackage}.wordprocessingml.document`,
  doc: 'application/msword',
  odt: `${openDocument}.text`,
  rtf: 'application/rtf',
  pptx: `${officePackage}.presentationml.presentation`,
  ppt: 'application/vnd.ms-powerpoint',
  odp: `${openDocument}.presentation`,
  xlsx: `${officePackage}.spreadsheetml.sheet`,
  xls: 'application/vnd.ms-excel',
  ods: `${openDocument}.spreadsheet`,
  epub: 'application/epub+zip',
  eml: 'message/rfc822',
  msg: 'application/vnd.ms-outlook',
};

/** Formats that the content identifies; until it is read, the file name is a good guess. */
const binaryFormats = [
  'pdf',
  'docx',
  'doc',
  'odt',
  'rtf',
  'pptx',
  'ppt',
  'odp',
  'xlsx',
  'xls',
  'ods',
  'epub',
  'eml',
  'msg',
] as const;

/** Feeds are converted like pages. */
const pageTypes = ['text/html', 'application/rss+xml', 'application/atom+xml'];

const imageTypes: Record<string, string> = {
  bmp: 'image/bmp',
  gif: 'image/gif',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  png: 'image/png',
  tif: 'image/tiff',
  tiff: 'image/tiff',
  webp: 'image/webp',
};

/**
 * Guesses the format from the file name and the client's media type, until the content has been inspected.
 * @returns null if neither is known
 */
export function guessFormat(file: { fileName: string; mediaType: string | null }): SourceFormat | null {
  const extension = fileExtension(file.fileName);
  const mediaType = bareMediaType(file.mediaType ?? '');
  return binaryFormat(extension, mediaType) ?? guessText(file.fileName, extension, mediaType);
}

function binaryFormat(extension: string, mediaType: string): SourceFormat | undefined {
  if (Object.hasOwn(imageTypes, extension) || Object.values(imageTypes).includes(mediaType)) return 'image';
  return (
    binaryFormats.find((format) => format === extension) ?? binaryFormats.find((each) => mediaTypes[each] === mediaType)
  );
}

function guessText(fileName: string, extension: string, mediaType: string): SourceFormat | null {
  if (/^x?html?$/.test(extension) || pageTypes.includes(mediaType)) return 'html';
  const format = textFormat({ head: '', fileName, declaredMediaType: mediaType });
  if (format !== 'text') return format;
  return extension === 'txt' || mediaType.startsWith('text/') ? 'text' : null;
}

/** @returns the media type of a download; `application/octet-stream` if the format is unknown */
export function mediaTypeOf(format: string | null, fileName: string): string {
  const found =
    format === 'image'
      ? Object.entries(imageTypes).find(([extension]) => extension === fileExtension(fileName))
      : Object.entries(mediaTypes).find(([name]) => name === format);
  return found?.[1] ?? 'application/octet-stream';
}
