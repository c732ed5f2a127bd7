/** Scripts without spaces between words, which only a dictionary can split. */
const UNSPACED = /[\p{scx=Hani}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}]/u;
const RUN = /[\p{L}\p{M}\p{N}]+/gu;
const segmenter = new Intl.Segmenter('th', { granularity: 'word' });

/** Returns the words of a text in lower case, without the accents of Latin letters, which questions often lack. */
export function wordsOf(text: string): string[] {
  const plain = text
    .normalize('NFD')
    .replace(/(?<=\p{Script=Latin})\p{M}+/gu, '')
    .normalize('NFC')
    .toLowerCase();
  return (plain.match(RUN) ?? []).flatMap((run) =>
    UNSPACED.test(run) ? Array.from(segmenter.segment(run), ({ segment }) => segment) : run,
  );
}
