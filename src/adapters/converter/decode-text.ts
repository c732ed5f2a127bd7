import { createRequire } from 'node:module';
import iconv from 'iconv-lite';
import type jschardet from 'jschardet';

const require = createRequire(import.meta.url);

/** Encoding detection reads only a sample of this size: jschardet is slow, and more text rarely changes its guess. */
const detectionSampleBytes = 64 * 1024;

/** Below this confidence, typical of texts of a few words, jschardet's guess is unreliable. */
const minConfidence = 0.15;

const byteOrderMarks: { mark: number[]; encoding: string }[] = [
  { mark: [0xef, 0xbb, 0xbf], encoding: 'utf-8' },
  { mark: [0xff, 0xfe, 0x00, 0x00], encoding: 'utf-32le' },
  { mark: [0x00, 0x00, 0xfe, 0xff], encoding: 'utf-32be' },
  { mark: [0xff, 0xfe], encoding: 'utf-16le' },
  { mark: [0xfe, 0xff], encoding: 'utf-16be' },
];

/** UTF-8 text with damaged places has at least this many times as many intact letters beyond ASCII. */
const intactPerDamaged = 4;

/**
 * Decodes text of unknown encoding. Tries in this order: byte order mark, UTF-16 without one, ISO-2022-JP escapes,
 * UTF-8, the declared encoding, jschardet's guess, and windows-1252, which accepts any byte.
 */
export function decodeText(bytes: Buffer, namedEncoding?: string): string {
  const unicode = detectUnicodeEncoding(bytes);
  if (unicode) return iconv.decode(bytes, unicode);
  if (isEscapedJapanese(bytes)) return new TextDecoder('iso-2022-jp').decode(bytes);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    const damaged = damagedUtf8(bytes);
    if (damaged !== null) return damaged;
    const named = namedEncoding && canonicalEncoding(namedEncoding);
    // Text that is declared as UTF-8 but is not valid has another encoding.
    const isUsable = named && named !== 'utf-8' && iconv.encodingExists(named);
    return iconv.decode(bytes, isUsable ? named : guessEncoding(bytes));
  }
}

/** Text that is UTF-8 but for a few places, such as one that was cut amid a letter. */
function damagedUtf8(bytes: Buffer): string | null {
  const text = bytes.toString('utf8');
  let intact = 0;
  let damaged = 0;
  for (const [letter] of text.matchAll(/[^\0-\x7f]/gu)) {
    if (letter === '\ufffd') damaged += 1;
    else intact += 1;
  }
  return intact >= damaged * intactPerDamaged ? text : null;
}

/** Guesses the encoding of text that is not UTF-8, by a sample of it. */
export function guessEncoding(bytes: Buffer): string {
  const sample = bytes.subarray(0, detectionSampleBytes);
  // jschardet is loaded lazily: its tables cost 0.1 s of CPU time in every process that reads files.
  const { detect } = require('jschardet') as typeof jschardet;
  const { encoding, confidence } = detect(sample);
  const isWestern = confidence < minConfidence && looksWestern(iconv.decode(sample, 'windows-1252'));
  return isWestern || !encoding || !iconv.encodingExists(encoding) ? 'windows-1252' : encoding;
}

/**
 * Whether text decoded as windows-1252 is plausible. With a wrong encoding it soon shows letters outside Western
 * European languages, symbols inside words, or words that consist of accented letters.
 */
function looksWestern(text: string): boolean {
  const isAllKnown =
    /^[\0-\x7f\u00a0ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüœŒ€…‚„‘’“”‹›«»–—•™©®°§±·×¡¿£½²³ªº´]*$/;
  const signAmidWord = /\p{L}[€…‚„‘“”‹›«»•™©®°§±×¡¿£½²³ªº]+\p{L}/u;
  const wordOfAccents = /(?<!\p{L})[^\P{L}a-z]{3,}(?!\p{L})/iu;
  return isAllKnown.test(text) && !signAmidWord.test(text) && !wordOfAccents.test(text);
}

/** Detects ISO-2022-JP, which switches to Japanese by 7-bit escape sequences. Such a file is also valid UTF-8. */
function isEscapedJapanese(bytes: Buffer): boolean {
  return (bytes.includes('\x1b$B') || bytes.includes('\x1b$@')) && bytes.every((byte) => byte < 0x80);
}

/** Normalizes encoding labels as browsers do (WHATWG): pages that declare Latin-1 are read as windows-1252. */
function canonicalEncoding(name: string): string {
  try {
    return new TextDecoder(name).encoding;
  } catch {
    return name;
  }
}

export function detectUnicodeEncoding(bytes: Buffer): string | null {
  const marked = byteOrderMarks.find(({ mark }) => mark.every((byte, index) => bytes[index] === byte));
  return marked?.encoding ?? unmarkedUtf16(bytes.subarray(0, 1024));
}

/**
 * Detects UTF-16 without a byte order mark: the spaces and line ends of every text, and the letters of a Latin one, have
 * a NUL on the same side, and nothing has one on the other. Binary files with such bytes are no text if decoded.
 */
function unmarkedUtf16(sample: Buffer): string | null {
  const pairs = Math.floor(sample.length / 2);
  if (pairs < 8) return null;
  let even = 0;
  let odd = 0;
  for (let index = 0; index < pairs * 2; index += 2) {
    if (sample[index] === 0) even += 1;
    if (sample[index + 1] === 0) odd += 1;
  }
  if (Math.min(even, odd) > 0 || Math.max(even, odd) < Math.max(2, pairs * minNulShare)) return null;
  const encoding = odd > 0 ? 'utf-16le' : 'utf-16be';
  const text = iconv.decode(sample.subarray(0, pairs * 2), encoding).replace(/[\ud800-\udbff]$/, '');
  return onlyTextCharacters.test(text) ? encoding : null;
}

const minNulShare = 0.02;
const onlyTextCharacters = /^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}\p{Cf}\t\r\n\f]+$/u;

export function findDeclaredEncoding(bytes: Buffer): string | undefined {
  const head = bytes.toString('latin1', 0, 2_048);
  const named =
    /<meta[^>]+charset\s*=\s*["']?([\w-]+)/i.exec(head) ?? /^<\?xml[^>]+encoding\s*=\s*["']([\w-]+)/i.exec(head);
  return named?.[1];
}
