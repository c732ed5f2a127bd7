/** A secret, by the name under which it is reported where one was found. */
export type Secret = { name: string; value: string };

/** A shorter spelling could be part of something else. */
const LONG_ENOUGH = 12;

/** @returns the names of the secrets that the text contains in any spelling, with what stands around them */
export function findSecrets(secrets: readonly Secret[], text: string): string[] {
  return secrets.flatMap(({ name, value }) => {
    const found = spellingsOf(value).find((spelling) => text.includes(spelling));
    if (found === undefined) return [];
    const at = text.indexOf(found);
    return [`${name}: ${text.slice(Math.max(0, at - 120), at + found.length + 20)}`];
  });
}

/** As it is, in an address, in JSON, in hex as Postgres shows bytes, and in base64 wherever in a longer text it begins. */
function spellingsOf(secret: string): string[] {
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
  return spellings.filter((spelling) => spelling.length >= LONG_ENOUGH);
}
