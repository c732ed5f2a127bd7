import type { SourceFormat } from './document-format.ts';

/** Formats of office programs: what they look like on paper only such a program can tell. */
export const officeFormats = [
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
] as const satisfies readonly SourceFormat[];
export type OfficeFormat = (typeof officeFormats)[number];

export function isOfficeFormat(format: string | null): format is OfficeFormat {
  return officeFormats.some((name) => name === format);
}
