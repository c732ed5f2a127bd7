import { decodeHTML } from 'entities';
import { charsetOfMediaType, mediaTypeWithoutParameters } from '#src/domain/documents/formats.ts';
import { decodeText, findDeclaredEncoding } from './decode-text.ts';

/** Finds the title in the first bytes of an HTML page without parsing it. Null if there is none. */
export function findHtmlTitle(head: Buffer, mediaType: string): string | null {
  if (!['text/html', 'application/xhtml+xml'].includes(mediaTypeWithoutParameters(mediaType))) return null;
  const found = /<title(?:\s[^>]{0,200})?>([^<]{1,2000})</i.exec(head.toString('latin1'));
  if (found === null) return null;
  const [tag, title = ''] = found;
  const start = found.index + tag.length - 1 - title.length;
  const bytes = head.subarray(start, start + title.length);
  const text = decodeHTML(decodeText(bytes, charsetOfMediaType(mediaType) ?? findDeclaredEncoding(head)));
  return text.replace(/\s+/g, ' ').trim() || null;
}
