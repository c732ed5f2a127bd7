import { createRequire } from 'node:module';
import iconv from 'iconv-lite';
import type jschardet from 'jschardet';

const require = createRequire(import.meta.url);

/** The statistics of a language settle early, and the detector is slow. */
const detectionSampleBytes = 64 * 1024;

/** Of a few sentences it is surer than this, of a few words never. */
const unsureBelow = 0.15;

const byteOrderMarks: { mark: number[]; encoding: string }[] = [
  { mark: [0xef, 0xbb, 0xbf], encoding: 'utf-8' },
  { mark: [0xff, 0xfe, 0x00, 0x00], encoding: 'utf-32le' },
  { mark: [0x00, 0x00, 0xfe, 0xff], encoding: 'utf-32be' },
  { mark: [0xff, 0xfe], encoding: 'utf-16le' },
  { mark: [0xfe, 0xff], encoding: 'utf-16be' },
];

/**
 * Decodes text of an unknown encoding: byte order mark, UTF-16 without one, the escapes of Japanese mail, strict UTF-8,
 * the encoding that its server or the document itself names, the detector's guess, and at last windows-1252, which
 * reads anything.
 */
export function decodeText(bytes: Buffer, namedEncoding?: string): string {
  const unicode = unicodeEncoding(bytes);
  if (unicode) return iconv.decode(bytes, unicode);
  if (isEscapedJapanese(bytes)) return new TextDecoder('iso-2022-jp').decode(bytes);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    const encoding = [namedEncoding && meant(namedEncoding), guessedEncoding(bytes.subarray(0, detectionSampleBytes))];
    return iconv.decode(bytes, encoding.find((name) => name && iconv.encodingExists(name)) ?? 'windows-1252');
  }
}

function guessedEncoding(sample: Buffer): string | null {
  // Loaded by the first text that is not UTF-8: its tables take 0.1 s of the processor in every process that reads files.
  const { detect } = require('jschardet') as typeof jschardet;
  const { encoding, confidence } = detect(sample);
  return confidence < unsureBelow && isWestern(iconv.decode(sample, 'windows-1252')) ? 'windows-1252' : encoding;
}

/**
 * Whether text that was read as windows-1252 has only the letters and signs of Western Europe, no sign amid a word
 * and no word of accented letters alone: text of another encoding gives one of these soon.
 */
function isWestern(text: string): boolean {
  const isAllKnown =
    /^[\0-\x7f\u00a0ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüœŒ€…‚„‘’“”‹›«»–—•™©®°§±·×¡¿£½²³ªº´]*$/;
  const signAmidWord = /\p{L}[€…‚„‘“”‹›«»•™©®°§±×¡¿£½²³ªº]+\p{L}/u;
  const wordOfAccents = /(?<!\p{L})[^\P{L}a-z]{3,}(?!\p{L})/iu;
  return isAllKnown.test(text) && !signAmidWord.test(text) && !wordOfAccents.test(text);
}

/** ISO 2022 switches to Japanese by an escape, within seven bits, so that all of it is valid UTF-8. */
function isEscapedJapanese(bytes: Buffer): boolean {
  return (bytes.includes('\x1b$B') || bytes.includes('\x1b$@')) && bytes.every((byte) => byte < 0x80);
}

/** Pages say Latin-1 and mean windows-1252: names are read as browsers read them. */
function meant(name: string): string {
  try {
    return new TextDecoder(name).encoding;
  } catch {
    return name;
  }
}

/** The encoding that the first bytes prove, if any; a NUL byte is no sign of a binary file then. */
export function unicodeEncoding(bytes: Buffer): string | null {
  const marked = byteOrderMarks.find(({ mark }) => mark.every((byte, index) => bytes[index] === byte));
  return marked?.encoding ?? unmarkedUtf16(bytes.subarray(0, 1024));
}

/** Latin text in UTF-16 has a NUL in every other byte and nowhere else. */
function unmarkedUtf16(sample: Buffer): string | null {
  const pairs = Math.floor(sample.length / 2);
  if (pairs < 8) return null;
  let even = 0;
  let odd = 0;
  for (let index = 0; index < pairs * 2; index += 2) {
    if (sample[index] === 0) even += 1;
    if (sample[index + 1] === 0) odd += 1;
  }
  if (odd > pairs * 0.7 && even === 0) return 'utf-16le';
  return even > pairs * 0.7 && odd === 0 ? 'utf-16be' : null;
}

/** The encoding that a page names in its head, or an XML file in its first line. */
export function htmlEncoding(bytes: Buffer): string | undefined {
  const head = bytes.toString('latin1', 0, 2_048);
  const named =
    /<meta[^>]+charset\s*=\s*["']?([\w-]+)/i.exec(head) ?? /^<\?xml[^>]+encoding\s*=\s*["']([\w-]+)/i.exec(head);
  return named?.[1];
}
