import { stemmer } from 'stemmer';
import { isQuestionWord } from './question-words.ts';
import { wordsOf } from './words.ts';

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

/** Returns the stems of a text without the function words of English and the question words of other languages. */
export function contentStems(text: string): string[] {
  return wordsOf(text)
    .filter((word) => !STOP_WORDS.has(word) && !isQuestionWord(word))
    .map((word) => stemmer(word));
}
