import { rarity } from './idf.ts';
import type { AnalyzeText } from './text-analysis.ts';

/** More are the same again, or of the margin, and each has to be embedded. */
const maxPhrases = 80;
const maxWords = 3;

/** What stands behind one of these is mostly done and not talked about: "you explain", "to sort", "never guess". */
const beforeVerbs: ReadonlySet<string> = new Set(
  'you i we they he she it who to please always never not also then must should can will may do'.split(' '),
);

/** Words of content that are about nothing. */
const vague: ReadonlySet<string> = new Set(
  `always never nothing something everything anything someone everyone anyone please politely briefly also then may must
  can will should would could friendly helpful cheerful polite brief warm short answer answers tone`.split(/\s+/),
);

export type Phrase = { phrase: string; count: number; rarity: number };

/**
 * Words and phrases of up to three words that texts may be about: neighbours without a stop-word or a mark between them,
 * and not the verb that a sentence begins with or that follows a pronoun. The most frequent and rarest first.
 */
export function phrasesOf(texts: readonly string[], analyze: AnalyzeText): Phrase[] {
  const found = new Map<string, Phrase>();
  for (const text of texts) {
    for (const phrase of phrasesIn(text, analyze)) {
      const terms = analyze(phrase);
      const key = terms.map(({ stem }) => stem).join(' ');
      const known = found.get(key);
      if (known !== undefined) known.count += 1;
      else {
        const mean = terms.reduce((sum, { stem }) => sum + rarity(stem), 0) / terms.length;
        found.set(key, { phrase, count: 1, rarity: mean });
      }
    }
  }
  const weight = ({ count, rarity }: Phrase) => Math.log1p(count) * rarity;
  return [...found.values()].sort((a, b) => weight(b) - weight(a)).slice(0, maxPhrases);
}

function* phrasesIn(text: string, analyze: AnalyzeText): Generator<string> {
  for (const [sentence] of text.matchAll(/[^.!?。！？\n]+/gu)) {
    let isBeginning = true;
    for (const [clause] of sentence.matchAll(/[^;:,()"“”、，]+/gu)) {
      const words = Array.from(clause.matchAll(/[\p{L}\p{M}\p{N}][\p{L}\p{M}\p{N}'’/+&-]*/gu), ([word]) => word);
      for (const [start, word] of words.entries()) {
        const before = words[start - 1]?.toLowerCase();
        const isVerb = before === undefined ? isBeginning && words.length > 1 : beforeVerbs.has(before);
        if (!isVerb && isContent(word, analyze)) yield* runsFrom(words.slice(start, start + maxWords), analyze);
      }
      isBeginning = false;
    }
  }
}

function* runsFrom(words: readonly string[], analyze: AnalyzeText): Generator<string> {
  for (let length = 1; length <= words.length; length += 1) {
    const run = words.slice(0, length);
    if (!isContent(run.at(-1) ?? '', analyze)) return;
    yield run.map((word) => (/^\p{Lu}\p{Ll}+$/u.test(word) ? word.toLowerCase() : word)).join(' ');
  }
}

function isContent(word: string, analyze: AnalyzeText): boolean {
  const terms = analyze(word);
  return (
    /\p{L}{2}/u.test(word) &&
    !vague.has(word.toLowerCase()) &&
    terms.length > 0 &&
    terms.every(({ isStopWord }) => !isStopWord)
  );
}
