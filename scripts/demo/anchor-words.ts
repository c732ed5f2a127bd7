const WORD = /\p{L}[\p{L}'-]{3,}/gu;
const ANCHORS = 30;
const HEAVIEST = 8;

const COMMON = new Set(
  `about above after again also although always among another because been before being below between both cannot could
  does doing down during each either else even every find first following from further give given have having here however
  into itself just last less like made make many might more most much must need never next none nothing often once only
  other otherwise over page part please same second section several shall should since some something still such than
  that their them then there these they this those three through times together under until upon used user uses using
  very want well were what when where whether which while whose will with within without would year years your`.split(
    /\s+/,
  ),
);

export function anchorWordsOf(texts: string[]): Record<string, number> {
  const counts = new Map<string, number>();
  for (const [word] of texts.join('\n').toLowerCase().matchAll(WORD)) {
    if (!COMMON.has(word)) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const words = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).slice(0, ANCHORS);
  const mostFrequent = words[0]?.[1] ?? 1;
  return Object.fromEntries(
    words.map(([word, count]) => [word, Math.max(1, Math.round((HEAVIEST * count) / mostFrequent))]),
  );
}
