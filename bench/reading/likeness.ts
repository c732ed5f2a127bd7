/** How well a text tells another one: both are 1 for a text with all its words in the same order. */
export type Likeness = {
  /** Share of the expected words that the text has, each as often as expected. */
  recall: number;
  /** Length of the longest common subsequence of words as a share of the expected words. */
  order: number;
};

/** Scripts without spaces between words count by letters. */
const word =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|(?:(?![\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}])[\p{L}\p{N}\p{M}])+/gu;

export function wordsOf(text: string): string[] {
  return text.normalize('NFKC').toLowerCase().match(word) ?? [];
}

export function likenessOf(expected: string, text: string): Likeness {
  const wanted = wordsOf(expected);
  const given = wordsOf(text);
  const left = new Map<string, number>();
  for (const each of given) left.set(each, (left.get(each) ?? 0) + 1);
  let found = 0;
  for (const each of wanted) {
    const count = left.get(each) ?? 0;
    if (count > 0) found += 1;
    left.set(each, count - 1);
  }
  return { recall: found / wanted.length, order: longestCommonSubsequence(wanted, given) / wanted.length };
}

function longestCommonSubsequence(first: readonly string[], second: readonly string[]): number {
  let above = new Uint32Array(second.length + 1);
  for (const each of first) {
    const row = new Uint32Array(second.length + 1);
    for (const [index, other] of second.entries()) {
      const [diagonal = 0, up = 0, left = 0] = [above[index], above[index + 1], row[index]];
      row[index + 1] = each === other ? diagonal + 1 : Math.max(up, left);
    }
    above = row;
  }
  return above[second.length] ?? 0;
}
