import { fileTypeFromBuffer } from 'file-type';
import type { SourceFormat } from '#src/domain/documents/formats.ts';

/** A format that is read, or what people call a file that is none, with its article. */
export type FileKind = SourceFormat | { name: string };

/** What only one kind of archive has among its entries, all of it; the first that is there counts. */
const archiveParts: [RegExp[], FileKind][] = [
  [[/^word\/document\d*\.xml$/], 'docx'],
  [[/^xl\/workbook\d*\.(?:xml|bin)$/], 'xlsx'],
  [[/^ppt\/presentation\d*\.xml$/], 'pptx'],
  // Scores have a container, too. Its media type comes first only where its writer kept to the rule.
  [[/^META-INF\/container\.xml$/, /\.opf$/i], 'epub'],
  [[/^visio\//], { name: 'a Visio drawing (.vsdx)' }],
  [[/^Index\/.*\.iwa$/], { name: 'a document of Pages, Numbers or Keynote' }],
];

/** What lies at the root of a compound file; protections come first, since the document is inside of them. */
const compoundStreams: [RegExp, FileKind | 'protected'][] = [
  [/^EncryptedPackage$/i, 'protected'],
  [/^\tDRMContent$/i, 'protected'],
  // Of a presentation with a password, which has its usual streams too.
  [/^EncryptedSummary$/i, 'protected'],
  [/^__properties_version1\.0$/i, 'msg'],
  [/^PowerPoint Document$/i, 'ppt'],
  [/^WordDocument$/i, 'doc'],
  [/^(?:Workbook|Book)$/i, 'xls'],
  [/^VisioDocument$/i, { name: 'an old Visio drawing (.vsd)' }],
];

/** By media type, which the first bytes show; templates are read as the documents that they make. */
const signatures: Record<string, FileKind> = {
  'application/epub+zip': 'epub',
  'application/postscript': { name: 'a PostScript file' },
  'application/vnd.oasis.opendocument.presentation': 'odp',
  'application/vnd.oasis.opendocument.presentation-template': 'odp',
  'application/vnd.oasis.opendocument.spreadsheet': 'ods',
  'application/vnd.oasis.opendocument.spreadsheet-template': 'ods',
  'application/vnd.oasis.opendocument.text': 'odt',
  'application/vnd.oasis.opendocument.text-template': 'odt',
  'application/zip': { name: 'an archive (.zip)' },
  'image/bmp': 'image',
  'image/gif': 'image',
  'image/jpeg': 'image',
  'image/png': 'image',
  'image/tiff': 'image',
  'image/webp': 'image',
};

/** What a TIFF holds is told further on, at its end for most programs; cameras have it tell of formats of their own. */
const tiffMarks = ['II*\0', 'MM\0*'];

/** Undefined for an archive that none of our formats has made. */
export function kindOfArchive(entryNames: readonly string[]): FileKind | undefined {
  const hasEntry = (part: RegExp) => entryNames.some((name) => part.test(name));
  return archiveParts.find(([parts]) => parts.every(hasEntry))?.[1];
}

export function kindOfCompoundFile(rootNames: readonly string[]): FileKind | 'protected' {
  const found = compoundStreams.find(([pattern]) => rootNames.some((name) => pattern.test(name)));
  return found?.[1] ?? { name: 'an old Office file of an unknown kind' };
}

/** Undefined when the first bytes say nothing. */
export async function kindOfSignature(head: Buffer): Promise<FileKind | undefined> {
  // The head alone can end in the middle of what the detector expects: then it says nothing, which is no failure.
  const type = await fileTypeFromBuffer(head).catch(() => undefined);
  if (type === undefined) return tiffMarks.includes(head.toString('latin1', 0, 4)) ? 'image' : undefined;
  const [family] = type.mime.split('/');
  const known = signatures[type.mime];
  if (known !== undefined) return known;
  if (family === 'image') return { name: `an image (.${type.ext})` };
  if (family === 'audio') return { name: `a sound recording (.${type.ext})` };
  if (family === 'video') return { name: `a video (.${type.ext})` };
  return { name: `a file of the type .${type.ext}` };
}
