import iconv from 'iconv-lite';

/** `word` is a control word or sign with its number, `bytes` are characters of the code page of the font. */
export type RtfToken =
  | { kind: 'open' }
  | { kind: 'close' }
  | { kind: 'word'; name: string; value: number | null }
  | { kind: 'bytes'; bytes: string };

const token = /\\([a-z]+)(-?\d{1,10})? ?|\\'([0-9a-f]{2})|\\([^a-z])|([{}])|[^\\{}]+/gis;

/** The parts of a file in which each character stands for a byte. */
export function* readTokens(file: string): Generator<RtfToken> {
  token.lastIndex = 0;
  for (let match = token.exec(file); match; match = token.exec(file)) {
    const [whole, word, value, hex, sign, brace] = match;
    if (brace) yield { kind: brace === '{' ? 'open' : 'close' };
    else if (hex) yield { kind: 'bytes', bytes: String.fromCharCode(Number.parseInt(hex, 16)) };
    else if (word === 'bin') token.lastIndex += Math.max(0, Number(value ?? 0));
    else if (word) yield { kind: 'word', name: word, value: value === undefined ? null : Number(value) };
    else if (sign && /[\\{}]/.test(sign)) yield { kind: 'bytes', bytes: sign };
    else if (sign) yield { kind: 'word', name: sign, value: null };
    else yield { kind: 'bytes', bytes: whole.replace(/[\r\n]+/g, '') };
  }
}

/** Code pages by the number of a font's character set. */
const codePages: Record<number, number> = {
  128: 932,
  129: 949,
  134: 936,
  136: 950,
  161: 1253,
  162: 1254,
  163: 1258,
  177: 1255,
  178: 1256,
  186: 1257,
  204: 1251,
  222: 874,
  238: 1250,
  254: 437,
  255: 850,
};
export const macCodePage = 10_000;

/** Undefined for the character set of the document. */
export function codePageOfCharset(charset: number): number | undefined {
  return charset === 77 ? macCodePage : codePages[charset];
}

export function decodeBytes(bytes: string, codePage: number): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII is the same in every code page
  if (/^[\u0000-\u007f]*$/.test(bytes)) return bytes;
  const name = codePage === macCodePage ? 'macintosh' : codePage === 65_001 ? 'utf8' : `cp${codePage}`;
  return iconv.decode(Buffer.from(bytes, 'latin1'), iconv.encodingExists(name) ? name : 'cp1252');
}
