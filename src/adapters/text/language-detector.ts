import { undeterminedLanguage } from '#src/domain/text/words.ts';
import type { LanguageDetector } from '#src/ports/documents.ts';

/** Characters that the detector reads of a text at once. */
const sampleLength = 1_000;

/** Length and lead of the best score from which a text counts that the detector calls unreliable: one full of names. */
const clearLength = 200;
const clearLead = 0.05;

/** Languages that a script tells, for texts that are too short for the detector or in a language it does not know. */
const scripts = [
  { language: 'ja', letters: /[\p{Script=Hiragana}\p{Script=Katakana}]/gu },
  { language: 'zh', letters: /\p{Script=Han}/gu },
  { language: 'ko', letters: /\p{Script=Hangul}/gu },
  { language: 'th', letters: /\p{Script=Thai}/gu },
  { language: 'lo', letters: /\p{Script=Lao}/gu },
  { language: 'km', letters: /\p{Script=Khmer}/gu },
  { language: 'my', letters: /\p{Script=Myanmar}/gu },
];
/** Share of the letters that must have the script. Japanese also has Han characters. */
const minScriptShare = 0.3;

/**
 * Detects the language of a text by the beginning, the middle and the end: two of the three must agree. Loads the
 * detector with the first text, because it takes 30 MB and a fifth of a second.
 */
export const detectLanguage: LanguageDetector = async (text) => {
  const { default: detector } = await import('eld/extrasmall');
  const votes = samplesOf(text).map((sample) => {
    const result = detector.detect(sample);
    const [first = 0, second = 0] = Object.values(result.getScores());
    const isClear = sample.length >= clearLength && first - second >= clearLead;
    return result.isReliable() || isClear ? result.language : languageOfScript(sample);
  });
  const [first = undeterminedLanguage, second, third] = votes;
  if (votes.length === 1 || first === second || first === third) return first;
  return second !== undefined && second === third ? second : undeterminedLanguage;
};

function languageOfScript(sample: string): string {
  const count = (letters: RegExp) => sample.match(letters)?.length ?? 0;
  const least = minScriptShare * Math.max(1, count(/\p{L}/gu));
  return scripts.find(({ letters }) => count(letters) >= least)?.language ?? undeterminedLanguage;
}

function samplesOf(text: string): string[] {
  if (text.length <= 3 * sampleLength) return [text];
  const middle = Math.floor((text.length - sampleLength) / 2);
  return [0, middle, text.length - sampleLength].map((start) => text.slice(start, start + sampleLength));
}
