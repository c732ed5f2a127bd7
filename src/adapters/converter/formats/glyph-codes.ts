/** From this number of pairs of letters on, the alternation of vowels and consonants is reliable. */
const minPairs = 60;
/** In every language at least 0.5 of the pairs alternate, mostly 0.6 to 0.8; with exchanged letters 0.2 to 0.4 do. */
const soundAlternation = 0.5;
const minAlternation = 0.38;
/** The share of a page's characters that must be in words of Latin letters to judge the page by them. */
const minLatinShare = 0.25;
/** Shorter words may be abbreviations, and longer ones proteins or keys. */
const minWordLength = 4;
const maxWordLength = 9;

const longestSample = 2_000;
const minLength = 40;
/** A page of text has at least 0.6, mostly more than 0.9; a page of glyph codes has at most 0.35. */
const minPlausible = 0.45;
/** The same limit for a page most of whose characters have a font without a map to Unicode. */
const minPlausibleUnmapped = 0.7;
const mostUnmapped = 0.4;

/**
 * True if the text of a page is made of the codes of glyphs, which PDFium returns if a font does not say which letters
 * it draws. The measures hold for every language, and for tables of numbers, formulas and source code.
 * @param unmapped share of the characters whose font has no map to Unicode, as far as PDFium knows
 */
export function isGlyphCodes(text: string, unmapped: number): boolean {
  const { pairs, alternating, latinShare } = countPairs(text);
  if (unmapped < mostUnmapped && pairs >= minPairs && latinShare >= minLatinShare) {
    if (alternating >= soundAlternation * pairs) return false;
    if (alternating < minAlternation * pairs) return true;
  }
  const start = Math.max(0, Math.floor((text.length - longestSample) / 2));
  const { plausible, length } = countPlausible(text.slice(start, start + longestSample));
  return length >= minLength && plausible < length * (unmapped < mostUnmapped ? minPlausible : minPlausibleUnmapped);
}

const [consonant, vowel, boundary] = [1, 2, 3];
const kinds = new Uint8Array(128);
for (const letter of 'bcdfghjklmnpqrstvwxz')
  for (const each of [letter, letter.toUpperCase()]) setKind(each, consonant);
for (const letter of 'aeiouyAEIOUY') setKind(letter, vowel);
for (const sign of '\t\n\r .,;:!?()-') setKind(sign, boundary);

function setKind(letter: string, kind: number): void {
  kinds[letter.charCodeAt(0)] = kind;
}

/**
 * Counts the pairs of letters in words of Latin letters without accents, and how many of them are a vowel and a
 * consonant. Names in source code and addresses are left out.
 */
function countPairs(text: string): { pairs: number; alternating: number; latinShare: number } {
  let pairs = 0;
  let alternating = 0;
  let visible = 0;
  let letters = 0;
  let length = 0;
  let changes = 0;
  let previous = boundary;
  let isWhole = true;
  for (let index = 0; index <= text.length; index += 1) {
    const code = index < text.length ? text.charCodeAt(index) : 32;
    const kind = kinds[code] ?? 0;
    if (code > 32) visible += 1;
    if (kind === vowel || kind === consonant) {
      if (length > 0 && kind !== previous) changes += 1;
      length += 1;
    } else {
      if (isWhole && kind === boundary && length >= minWordLength && length <= maxWordLength) {
        letters += length;
        pairs += length - 1;
        alternating += changes;
      }
      isWhole = kind === boundary;
      length = 0;
      changes = 0;
    }
    previous = kind;
  }
  return { pairs, alternating, latinShare: visible === 0 ? 0 : letters / visible };
}

const scripts = `Latin Cyrillic Greek Arabic Hebrew Syriac Thaana Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu
  Kannada Malayalam Sinhala Thai Lao Tibetan Myanmar Georgian Armenian Ethiopic Khmer Mongolian Cherokee Tifinagh Nko`;
const oneScript = new RegExp(
  [
    // Japanese and Korean words mix scripts.
    '[\\p{scx=Han}\\p{scx=Hiragana}\\p{scx=Katakana}\\p{scx=Bopomofo}\\p{scx=Hangul}]+',
    ...scripts.split(/\s+/).map((name) => `[\\p{scx=${name}}\\p{M}]+`),
  ].join('|'),
  'gu',
);
/** Words of different scripts that are glued to each other are longer than the pieces of a mixed-up word. */
const minPieceLength = 3;

/** Controls, private and unassigned characters, and rare blocks into which many glyph codes fall. */
const never = /[\p{Cc}\p{Co}\p{Cn}\p{Cs}\ufffd\u3400-\u4dbf\ua000-\ua4cf]/u;
const eastAsian = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}]+/gu;
const signs = /[\p{P}\p{S}\p{N}]+/gu;
const outerSigns = /^[\p{P}\p{S}]+|[\p{P}\p{S}]+$/gu;
const usualCase = /^(?:\p{Lu}{0,3}[\p{Ll}\p{M}]+(?:\p{Lu}{1,3}[\p{Ll}\p{M}]+)*|[\p{Lu}\p{M}]+s?)$/u;
const cased = /[\p{Lu}\p{Ll}]/u;
const latin = /^[\p{scx=Latin}\p{M}]+$/u;
const unaccented = /[a-z]/gi;

/** Counts the characters of a text without the signs around its words, and those of them in plausible words. */
function countPlausible(text: string): { plausible: number; length: number } {
  let length = 0;
  let plausible = 0;
  for (const token of text.split(/\s+/)) {
    const inner = token.replace(outerSigns, '');
    length += inner.length;
    if (never.test(inner)) continue;
    const words = inner.replace(signs, ' ').replace(eastAsian, ' $& ').split(' ');
    plausible += words.reduce((rest, word) => rest - implausibleLength(word), inner.length);
  }
  return { plausible, length };
}

function implausibleLength(word: string): number {
  if (word.length < 2) return 0;
  const pieces = word.match(oneScript) ?? [];
  if (pieces[0] === word) return isUsualWord(word) ? 0 : word.length;
  return pieces.reduce((rest, { length }) => rest - (length < minPieceLength ? 0 : length), word.length);
}

function isUsualWord(word: string): boolean {
  if (!cased.test(word)) return true;
  if (!usualCase.test(word)) return false;
  // Bytes of another encoding are taken for letters with accents.
  return !latin.test(word) || word.replace(unaccented, '').length <= word.length / 2;
}
