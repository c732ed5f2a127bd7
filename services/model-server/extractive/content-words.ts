import { stemmer } from 'stemmer';

const STOP_WORDS = new Set(
  (
    'a about according all also am an and any are as at be been being but by can could did do does doing for from get ' +
    'give had has have he her his how i if in into is it its let me mine my no not of on or our out please shall she ' +
    'should show so some tell than that the their them then there these they this those to up us was we were what ' +
    'when where which who whom whose why will with would you your'
  ).split(' '),
);

export function contentWords(text: string): Set<string> {
  return new Set(contentStems(text));
}

/**
 * Returns the stems that an answer must contain: numbers, codes and names. Names are recognized by capitals, so none is
 * found in text that is all capitalized or all lower case.
 */
export function namingWords(question: string): Set<string> {
  const words = (question.match(/[\p{L}\p{N}]+/gu) ?? []).filter((word) => !STOP_WORDS.has(word.toLowerCase()));
  const isCapitalized = (word: string) => /^\p{Lu}/u.test(word);
  const hasNames = !words.every(isCapitalized);
  const start = question.match(/[\p{L}\p{N}]+/u)?.[0];
  const naming = words.filter(
    (word) => /\p{N}{3}|\p{L}\p{N}|\p{N}\p{L}/u.test(word) || (hasNames && isCapitalized(word) && word !== start),
  );
  return contentWords(naming.join(' '));
}

export function contentStems(text: string): string[] {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.filter((word) => !STOP_WORDS.has(word)).map((word) => stemmer(word));
}
