import { fileExtension } from './document-format.ts';
import { bareMediaType } from './media-type.ts';
import { isOneLine } from './plain-text.ts';

const maxNameLength = 255;

/** Names of parameters that let their bearer in: signatures, keys, sessions. */
const secretParameter =
  /(?:credential|hmac|key|key_?id|password|secret|signature|ticket|token)s?$|^(?:auth|authorization|bearer|code|jwt|otp|pass|pwd|session|session_?id|sid|sig)$|^x-(?:amz|goog)-/i;

/**
 * Where a document came from, as everybody who reads it may see it: without user, password and fragment, and without
 * those parameters of the query that look like a key to it.
 */
export function sourceAddress(asked: string): string {
  const url = new URL(asked);
  url.username = '';
  url.password = '';
  url.hash = '';
  const secrets = [...url.searchParams.keys()].filter((name) => secretParameter.test(name));
  // Deleting writes the query anew: one without secrets stays as it was written.
  for (const name of secrets) url.searchParams.delete(name);
  return url.href;
}

/** Extensions by which the formats are told that a server names; the first is given to a file that has none of them. */
const extensions: Record<string, readonly string[]> = {
  'application/json': ['json', 'ipynb'],
  'application/pdf': ['pdf'],
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': ['docx'],
  'application/xhtml+xml': ['html', 'htm', 'xhtml'],
  'application/xml': ['xml', 'xsd', 'xsl'],
  'text/csv': ['csv'],
  'text/html': ['html', 'htm', 'xhtml'],
  'text/markdown': ['md', 'markdown', 'mdx'],
  'text/tab-separated-values': ['tsv', 'tab'],
  'text/xml': ['xml', 'xsd', 'xsl'],
};

/**
 * What a fetched document is called: as its server says, else by its title, its address or its host. Its file gets an
 * extension that says what the server says, so that it is read as that.
 */
export function webDocumentNames(source: {
  finalUrl: string;
  mediaType: string;
  fileName: string | null;
  title: string | null;
}): { name: string; fileName: string } {
  const { hostname, pathname } = new URL(source.finalUrl);
  const given = oneLine(source.fileName?.split(/[\\/]/).at(-1) ?? '');
  const segment = oneLine(decoded(pathname.split('/').filter(Boolean).at(-1) ?? '').replaceAll(/[\\/]/g, ' '));
  const base = given || segment || hostname;
  const known = extensionsOf(bareMediaType(source.mediaType));
  const [extension] = known;
  const isSaid = extension === undefined || known.includes(fileExtension(base));
  return {
    name: given || oneLine(source.title ?? '') || segment || hostname,
    fileName: isSaid ? base : `${base.slice(0, maxNameLength - extension.length - 1).toWellFormed()}.${extension}`,
  };
}

function extensionsOf(mediaType: string): readonly string[] {
  if (mediaType.endsWith('+json')) return ['json'];
  return extensions[mediaType] ?? (/^application\/.*\+xml$/.test(mediaType) ? ['xml'] : []);
}

function oneLine(text: string): string {
  const line = [...text.replace(/\s+/g, ' ')].filter(isOneLine).join('').trim();
  return line.slice(0, maxNameLength).toWellFormed();
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
