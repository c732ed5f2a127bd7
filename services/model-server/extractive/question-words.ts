import { wordsOf } from './words.ts';

type Kind = 'number' | 'time' | 'person';

/** Question words, and what an answer to them usually contains. The other languages of Europe and Asia have a few. */
const KINDS: readonly [kind: Kind | null, words: string][] = [
  [
    'number',
    'cuánto cuánta cuántos cuántas combien wieviel viel viele quanto quanta quanti quante quantos quantas hoeveel сколько скільки กี่ เท่าไร เท่าไหร่ bao nhiêu 多少 几',
  ],
  ['time', 'cuándo quand wann quando wanneer когда коли kiedy när når เมื่อไร เมื่อใด 何时 いつ'],
  ['person', 'quién quiénes qui wer wem wen wessen quem wie кто кого кому чей чья хто kto vem hvem ใคร 谁 誰'],
  [
    null,
    'qué cuál cuáles dónde cómo quel quelle quels quelles que quoi où comment pourquoi welche welcher welches welchen was wo warum ' +
      'cosa quale quali dove perché qual quais onde welke wat waar hoe waarom что какой какая какое какие каком какую каков где как почему ' +
      'який яка що де як jaki jaka gdzie jak vad hvad hvor nerede nasıl อะไร ไหน ที่ไหน ใด อย่างไร gì nào đâu thế 什么 哪 哪里 何 どこ どう',
  ],
];

const ENGLISH: readonly [kind: Kind, asked: RegExp][] = [
  [
    'number',
    /\bhow (?:many|much|long|old|often|big|far|large|heavy|high)\b|\b(?:number|price|cost|total|amount|rate|phone|id)\b/i,
  ],
  ['time', /\bwhen\b|\b(?:date|year|time|day)\b/i],
  ['person', /\bwho(?:se|m)?\b/i],
];

const GIVEN: Readonly<Record<Kind, RegExp>> = {
  number: /\p{N}/u,
  time: /\p{N}/u,
  person: /\p{Lu}\p{Ll}+ \p{Lu}/u,
};

const kindOfWord = new Map(KINDS.flatMap(([kind, words]) => wordsOf(words).map((word) => [word, kind] as const)));

export function isQuestionWord(word: string): boolean {
  return kindOfWord.has(word);
}

/** Returns what a text that answers the question probably contains; null if the question does not show it. */
export function expectedInAnswer(question: string): RegExp | null {
  const english = ENGLISH.find(([, asked]) => asked.test(question))?.[0];
  const kinds = wordsOf(question).map((word) => kindOfWord.get(word));
  const kind = english ?? kinds.find((found) => found !== undefined && found !== null);
  return kind ? GIVEN[kind] : null;
}
