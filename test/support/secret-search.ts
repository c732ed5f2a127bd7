/** A secret, by the name under which it is told where one was found. */
export type Secret = { name: string; value: string };
/** Something that others read, as the text of all that is in it. */
type Place = { name: string; text: string };

/** Below this a spelling could be part of something else. */
const LONG_ENOUGH = 12;

/** Which secrets stand in which place, and in what spelling. */
export function findSecrets(secrets: readonly Secret[], places: readonly Place[]): string[] {
  const sought = secrets.map(({ name, value }) => ({ name, spellings: [...spellingsOf(value)] }));
  return places.flatMap(({ name: place, text }) =>
    sought.flatMap(({ name, spellings }) => {
      const found = spellings.find((spelling) => text.includes(spelling));
      if (found === undefined) return [];
      const at = text.indexOf(found);
      return [`${name} in ${place}: ${text.slice(Math.max(0, at - 120), at + found.length + 20)}`];
    }),
  );
}

/** As it is, in an address, in JSON, in hex as Postgres shows bytes, and in base64 wherever in a longer text it begins. */
function spellingsOf(secret: string): Set<string> {
  const bytes = Buffer.from(secret);
  const base64 = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    // What stands in the first and in the last four letters depends on the neighbours.
    return text.slice(before === 0 ? 0 : 4, (before + bytes.length) % 3 === 0 ? undefined : -4);
  });
  const spellings = [
    secret,
    encodeURIComponent(secret),
    JSON.stringify(secret).slice(1, -1),
    bytes.toString('hex'),
    ...base64,
    ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
  ];
  return new Set(spellings.filter((spelling) => spelling.length >= LONG_ENOUGH));
}
