import { decodeHTML } from 'entities';
import { charsetOfMediaType, mediaTypeWithoutParameters } from '#src/domain/documents/formats.ts';
import { decodeText, htmlEncoding } from './decode-text.ts';

/** Scans the first bytes of an HTML page without parsing; null for other media types or without a title. */
export function pageTitle(head: Buffer, mediaType: string): string | null {
  if (!['text/html', 'application/xhtml+xml'].includes(mediaTypeWithoutParameters(mediaType))) return null;
  const found = /<title(?:\s[^>]{0,200})?>([^<]{1,2000})</i.exec(head.toString('latin1'));
  if (found === null) return null;
  const [tag, title = ''] = found;
  const start = found.index + tag.length - 1 - title.length;
  const bytes = head.subarray(start, start + title.length);
  const text = decodeHTML(decodeText(bytes, charsetOfMediaType(mediaType) ?? htmlEncoding(head)));
  return text.replace(/\s+/g, ' ').trim() || null;
}
