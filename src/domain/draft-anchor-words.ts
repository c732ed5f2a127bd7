import type { AnchorWords } from './draft-fields.ts';

export const maxAnchorWords = 200;
const maxWordsOfAPhrase = 3;
const maxPhraseLength = 100;

/** The spelling under which an anchor word is stored: one space between words, none around, composed Unicode. */
export function anchorSpelling(word: string): string {
  return word.normalize('NFC').trim().replace(/\s+/gu, ' ');
}

/** What is wrong with anchor words as they were sent, by word; empty when nothing is. */
export function anchorWordProblems(words: AnchorWords): { word: string; message: string }[] {
  const problems: { word: string; message: string }[] = [];
  const seen = new Set<string>();
  for (const [word, weight] of Object.entries(words)) {
    const spelling = anchorSpelling(word);
    const key = spelling.toLowerCase();
    if (spelling === '') problems.push({ word, message: 'is blank' });
    else if (spelling.length > maxPhraseLength)
      problems.push({ word, message: `is over ${maxPhraseLength} characters` });
    else if (spelling.split(' ').length > maxWordsOfAPhrase) {
      problems.push({ word, message: `has more than ${maxWordsOfAPhrase} words` });
    } else if (seen.has(key)) problems.push({ word, message: 'is there twice' });
    else if (!Number.isInteger(weight) || weight < 1 || weight > 10) {
      problems.push({ word, message: 'needs a whole weight from 1 to 10' });
    }
    seen.add(key);
  }
  return problems;
}

export function spellAnchorWords(words: AnchorWords): AnchorWords {
  return Object.fromEntries(Object.entries(words).map(([word, weight]) => [anchorSpelling(word), weight]));
}
