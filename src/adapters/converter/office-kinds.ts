import { fileTypeFromBuffer } from 'file-type';
import type { FileFormat } from '#src/domain/document-format.ts';

/** A format, or what people call a file that has none of ours, with its article. */
export type OfficeKind = { format: FileFormat } | { name: string };

/** What only one kind of archive has among its entries; the first that is there counts. */
const archiveParts: [RegExp, OfficeKind][] = [
  [/^word\/document\d*\.xml$/, { format: 'docx' }],
  [/^xl\/workbook\d*\.(?:xml|bin)$/, { format: 'xlsx' }],
  [/^ppt\/presentation\d*\.xml$/, { format: 'pptx' }],
  [/^visio\//, { name: 'a Visio drawing (.vsdx)' }],
  [/^Index\/.*\.iwa$/, { name: 'a document of Pages, Numbers or Keynote' }],
];

/** By what archives say about themselves in their first entry; templates are read as the documents they make. */
const archivesByMediaType: Record<string, FileFormat> = {
  'application/epub+zip': 'epub',
  'application/vnd.oasis.opendocument.presentation': 'odp',
  'application/vnd.oasis.opendocument.presentation-template': 'odp',
  'application/vnd.oasis.opendocument.spreadsheet': 'ods',
  'application/vnd.oasis.opendocument.spreadsheet-template': 'ods',
  'application/vnd.oasis.opendocument.text': 'odt',
  'application/vnd.oasis.opendocument.text-template': 'odt',
};

/** What lies at the root of a compound file; protections come first, since the document is inside of them. */
const compoundStreams: [RegExp, OfficeKind | 'protected'][] = [
  [/^EncryptedPackage$/i, 'protected'],
  [/^\tDRMContent$/i, 'protected'],
  [/^__properties_version1\.0$/i, { format: 'msg' }],
  [/^PowerPoint Document$/i, { format: 'ppt' }],
  [/^WordDocument$/i, { format: 'doc' }],
  [/^(?:Workbook|Book)$/i, { format: 'xls' }],
  [/^VisioDocument$/i, { name: 'an old Visio drawing (.vsd)' }],
];

/** Undefined for an archive that is no document. */
export async function kindOfArchive(head: Buffer, entryNames: readonly string[]): Promise<OfficeKind | undefined> {
  const part = archiveParts.find(([pattern]) => entryNames.some((name) => pattern.test(name)));
  if (part) return part[1];
  const type = await fileTypeFromBuffer(head).catch(() => undefined);
  const format = type && archivesByMediaType[type.mime];
  return format && { format };
}

/** Undefined for a compound file that no office program has written. */
export function kindOfCompoundFile(rootNames: readonly string[]): OfficeKind | 'protected' | undefined {
  return compoundStreams.find(([pattern]) => rootNames.some((name) => pattern.test(name)))?.[1];
}
