import { createRequire } from 'node:module';
import { stemmer as porterStemmer } from 'stemmer';
import { type StemmedTerm, type TextAnalyzer, undeterminedLanguage, wordSpans } from '#src/domain/text/words.ts';

const englishStopWords: ReadonlySet<string> = new Set(
  `a about above after again against all am an and any are aren as at be because been before being below between both
  but by can cannot could couldn did didn do does doesn doing don down during each few for from further had hadn has
  hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just let ll m
  me more most mustn my myself no nor not now of off on once only or other ought our ours ourselves out over own re s
  same shan she should shouldn so some such t than that the their theirs them themselves then there these they this
  those through to too under until up ve very was wasn we were weren what when where which while who whom why will with
  won would wouldn you your yours yourself yourselves d`.split(/\s+/),
);

/** Function words only: the Spanish list of the package has nouns such as `cuenta`, `trabajo` and `valor`. */
const spanishStopWords: ReadonlySet<string> = new Set(
  `a al algo algún alguna algunas alguno algunos ante antes aquel aquella aquellas aquello aquellos aun aunque aún bajo
  cada como con contra cual cuales cualquier cuando cuanta cuantas cuanto cuantos cuál cuáles cuándo cuánta cuántas
  cuánto cuántos cuya cuyas cuyo cuyos cómo de del desde donde durante dónde e el ella ellas ello ellos en entre era
  eran es esa esas ese eso esos esta estaba estaban estado estas este esto estos está están fue fueron ha haber había
  habían han hasta hay he hemos la las le les lo los mas me mediante mi mientras mis muy más mí ni no nos nosotros
  nuestra nuestras nuestro nuestros o os otra otras otro otros para pero por porque pues que quien quienes qué quién
  quiénes se sea sean según ser será serán si sido siendo sin sino sobre son su sus suya suyas suyo suyos sí también
  tampoco tan tanto te ti tiene tienen tu tus tú u un una unas uno unos usted ustedes y ya yo él`.split(/\s+/),
);

/**
 * Names of the stemmers in `@orama/stemmers` by language. Bulgarian is missing because its stemmer throws for some
 * words. Indonesian and Malay are one language for the detector.
 */
const stemmerNames: Readonly<Record<string, string>> = {
  ...{ ar: 'arabic', da: 'danish', de: 'german', el: 'greek', es: 'spanish', fi: 'finnish', fr: 'french' },
  ...{ hi: 'indian', hu: 'hungarian', hy: 'armenian', it: 'italian', lt: 'lithuanian', ms: 'indonesian', nl: 'dutch' },
  ...{ no: 'norwegian', pt: 'portuguese', ro: 'romanian', ru: 'russian', sr: 'serbian', sv: 'swedish', ta: 'tamil' },
  ...{ tr: 'turkish', uk: 'ukrainian' },
};

/** Languages whose lists in `@orama/stopwords` are those of Snowball; the other lists have content words. */
const withStopWords: ReadonlySet<string> = new Set(['da', 'de', 'fi', 'fr', 'it', 'nl', 'no', 'pt', 'ru', 'sv']);
/** Content words in the Russian list of Snowball. */
const noStopWords: ReadonlySet<string> = new Set(['говорил', 'жизнь', 'сказал', 'сказала', 'сказать', 'человек']);

/** Scripts with stemmers, and the language assumed for a word in another script than the document's language. */
const scripts = [
  { code: 'Latn', isOf: /\p{Script=Latin}/u, language: 'en' },
  { code: 'Cyrl', isOf: /\p{Script=Cyrillic}/u, language: 'ru' },
  { code: 'Grek', isOf: /\p{Script=Greek}/u, language: 'el' },
  { code: 'Arab', isOf: /\p{Script=Arabic}/u, language: 'ar' },
  { code: 'Deva', isOf: /\p{Script=Devanagari}/u, language: 'hi' },
  { code: 'Armn', isOf: /\p{Script=Armenian}/u, language: 'hy' },
  { code: 'Taml', isOf: /\p{Script=Tamil}/u, language: 'ta' },
];

const maxMemoizedWords = 100_000;

type Stemming = { stem: (word: string) => string; stopWords: ReadonlySet<string> };

const english: Stemming = { stem: porterStemmer, stopWords: englishStopWords };
const none: Stemming = { stem: (word) => word, stopWords: new Set() };

/**
 * Splits text into search terms (NFKC, lower case), with the stems and stop words of the document's language. A word in
 * another script gets those of a language of its script, so that an English name has the same stem in all documents.
 */
export function createTextAnalyzer(): TextAnalyzer {
  const stemmings = new Map<string, Stemming>([
    ['en', english],
    [undeterminedLanguage, english],
  ]);
  const analyzers = new Map<string, (word: string) => StemmedTerm>();
  const memos = new Map<string, Map<string, StemmedTerm>>();
  let memoizedWords = 0;

  function stemmingOf(language: string): Stemming {
    const stemming = stemmings.get(language) ?? loadStemming(language);
    stemmings.set(language, stemming);
    return stemming;
  }

  function analyzerOf(language: string): (word: string) => StemmedTerm {
    const script = new Intl.Locale(language).maximize().script;
    const own = stemmingOf(language);
    return (word) => {
      const written = scripts.find(({ isOf }) => isOf.test(word));
      const { stem, stopWords } = written && written.code !== script ? stemmingOf(written.language) : own;
      const folded = word.replaceAll('i\u0307', 'i').replaceAll('ё', 'е');
      return { stem: stem(folded) || folded, isStopWord: stopWords.has(folded) };
    };
  }

  function memoOf(language: string): Map<string, StemmedTerm> {
    const memo = memos.get(language) ?? new Map<string, StemmedTerm>();
    memos.set(language, memo);
    return memo;
  }

  return (text, language = 'en') => {
    const analyzeWord = analyzers.get(language) ?? analyzerOf(language);
    analyzers.set(language, analyzeWord);
    let memo = memoOf(language);
    const normalized = recompose(text.normalize('NFKC').toLowerCase());
    return wordSpans(normalized).map(({ start, end }) => {
      const word = normalized.slice(start, end);
      const known = memo.get(word);
      if (known) return known;
      const term = analyzeWord(word);
      if (memoizedWords >= maxMemoizedWords) {
        memos.clear();
        memoizedWords = 0;
        memo = memoOf(language);
      }
      memo.set(word, term);
      memoizedWords += 1;
      return term;
    });
  };
}

/** Undoes what NFKC does to the vowel AM of Thai and Lao, because the dictionary of the segmenter has composed words. */
function recompose(text: string): string {
  return text.replaceAll('\u0e4d\u0e32', '\u0e33').replaceAll('\u0ecd\u0eb2', '\u0eb3');
}

const loadModule = createRequire(import.meta.url);

/** Loads a stemmer only when a document has its language, because all of them take a tenth of a second. */
function loadStemming(language: string): Stemming {
  const name = stemmerNames[language];
  if (name === undefined) return none;
  const { stemmer }: { stemmer: Stemming['stem'] } = loadModule(`@orama/stemmers/${name}`);
  if (language === 'es') return { stem: stemmer, stopWords: spanishStopWords };
  if (!withStopWords.has(language)) return { stem: stemmer, stopWords: none.stopWords };
  const { stopwords }: { stopwords: readonly string[] } = loadModule(`@orama/stopwords/${name}`);
  return { stem: stemmer, stopWords: new Set(stopwords.filter((word) => !noStopWords.has(word))) };
}
