import { isOneLine } from '../text/plain-text.ts';
import { fileExtension, mediaTypeWithoutParameters } from './formats.ts';

const maxNameLength = 255;

const secretParameter =
  /(?:credential|hmac|key|key_?id|password|secret|signature|ticket|token)s?$|^(?:auth|authorization|bearer|code|jwt|otp|pass|pwd|session|session_?id|sid|sig)$|^x-(?:amz|goog)-/i;

/** URL that readers may see: without user, password, fragment and query parameters that grant access. */
export function publicSourceUrl(asked: string): string {
  const url = new URL(asked);
  url.username = '';
  url.password = '';
  url.hash = '';
  const secrets = [...url.searchParams.keys()].filter((name) => secretParameter.test(name));
  // Calls `delete` only for existing parameters, because it serializes the query again, and a URL without secrets must
  // stay as written.
  for (const name of secrets) url.searchParams.delete(name);
  return url.href;
}

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
 * Names a fetched document by the server's file name, else by the page's title, the last path segment or the host. The
 * file name gets an extension that matches the server's media type, because the extension decides how the file is read.
 */
export function namesOfWebDocument(source: {
  finalUrl: string;
  mediaType: string;
  fileName: string | null;
  title: string | null;
}): { name: string; fileName: string } {
  const { hostname, pathname } = new URL(source.finalUrl);
  const given = oneLine(source.fileName?.split(/[\\/]/).at(-1) ?? '');
  const segment = oneLine(decoded(pathname.split('/').filter(Boolean).at(-1) ?? '').replaceAll(/[\\/]/g, ' '));
  const base = given || segment || hostname;
  const known = extensionsOf(mediaTypeWithoutParameters(source.mediaType));
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
