import { visibleText } from './context-blocks.ts';

/**
 * Phrases that address a model instead of a reader, in English, German, French, Spanish, Portuguese, Italian, Dutch, Russian,
 * Chinese and Japanese. A list of phrases only finds careless attacks; it adds a warning and filters nothing.
 */
const wordings = [
  /\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}\b(?:all|any|every|previous|prior|above|earlier|preceding|your|the)\b.{0,30}\b(?:instruction|rule|prompt|direction|guideline|context|message|constraint)s?\b/,
  /\b(?:system|developer|hidden|initial)[ -]?(?:prompt|message|instruction)s?\b/,
  /\byou (?:are|must act|will act) (?:now|as|from now on)\b|\bfrom now on,? you\b|\bnew instructions?\b\s*:|\bjailbreak|\bdo anything now\b/,
  /\b(?:reveal|repeat|print|output|disclose|leak)\b.{0,40}\b(?:prompt|instructions|secret|canary|api key|password|everything above)\b/,
  /\b(?:ai|assistant|language model|chatbot|llm)s?\b.{0,30}\b(?:must|shall|should|is to|are to|instructed to|has to)\b/,
  /(?:^|\n)[\s>#*-]{0,8}(?:system|assistant|developer|instructions?|human)\s*:|##\s*(?:system|instructions?|response|assistant)\b/,
  /<·?[|｜]|\[·?\/?inst\]|<·?<\/?sys>>|<·?\/?(?:system|start_of_turn|end_of_turn|tool_call)>/,
  /"(?:tool_calls?|function_call)"\s*:/,
  /\b(?:ignorier|vergiss|missacht)\w*\b.{0,50}\b(?:anweisung|regel|vorgabe|befehl)\w*/,
  /\b(?:ignor|oubli)\w*\b.{0,50}\b(?:instructions?|consignes?|règles?)\b/,
  /\b(?:ignora|olvida|esquece|dimentica|negeer|vergeet)\w*\b.{0,50}\b(?:instruc|istruzion|regla|regra|regol|instructie|regel)\w*/,
  /(?:игнорируй|забудь|не обращай внимания)[^.]{0,50}(?:инструкци|указани|правил)/,
  /(?:忽略|无视|無視|忘记|忘れ).{0,20}(?:指令|指示|规则|規則|提示|ルール)|(?:指示|命令|ルール)を(?:すべて)?(?:無視|忘れ)/,
] as const;

/** Letters of other alphabets that look like Latin ones. */
const lookalikes: Readonly<Record<string, string>> = Object.fromEntries(
  [...'аеіорсухѕԁοаеνικτ'].map((letter, index) => [letter, [...'aeiopcyxsdoaevikt'][index] ?? letter]),
);

const encoded = /[A-Za-z0-9+/]{24,}={0,2}/g;
/** Longer than almost all chunks; the rest is not checked. */
const charactersRead = 16_000;

/** True for a text that contains instructions to a model, also in look-alike letters, base64 or rot13. */
export function addressesModel(text: string): boolean {
  const visible = visibleText(text.slice(0, charactersRead));
  const blobs = Array.from(visible.matchAll(encoded), ([blob]) => decoded(blob));
  return [visible, rot13(visible), ...blobs].some(holdsInstruction);
}

function holdsInstruction(text: string): boolean {
  const lower = text.normalize('NFKC').toLowerCase();
  const plain = lower.replace(/[^\p{ASCII}]/gu, (letter) => lookalikes[letter] ?? letter);
  return [lower, plain].some((variant) => wordings.some((wording) => wording.test(variant.replace(/[ \t]+/g, ' '))));
}

function decoded(blob: string): string {
  try {
    return atob(blob.slice(0, blob.length - (blob.replace(/=+$/, '').length % 4 === 1 ? 1 : 0)));
  } catch {
    return '';
  }
}

function rot13(text: string): string {
  return text.replace(/[a-z]/gi, (letter) => {
    const first = letter <= 'Z' ? 65 : 97;
    return String.fromCharCode(((letter.charCodeAt(0) - first + 13) % 26) + first);
  });
}
