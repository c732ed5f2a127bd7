/** The file name of a Content-Disposition header (RFC 6266), as servers really write it; null when it has none. */
export function dispositionFileName(header: string): string | null {
  const [, charset = '', encoded = ''] = /;\s*filename\*\s*=\s*"?([\w-]+)'[^']*'([^;"]+)/i.exec(header) ?? [];
  const extended = decodeExtended(charset, encoded.trim());
  if (extended) return extended;
  const [, quoted, plain] = /;\s*filename\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^;"]+))/i.exec(header) ?? [];
  const name = quoted?.replace(/\\(["\\])/g, '$1') ?? plain?.trim();
  return name || null;
}

function decodeExtended(charset: string, text: string): string | null {
  const bytes = Buffer.from(
    text.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  );
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes) || null;
  } catch {
    return null;
  }
}
