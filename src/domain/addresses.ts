/** The beginning of an address that clients make a link of by themselves. */
export const addressStart = String.raw`(?:https?|ftps?):\\?\/\\?\/|www\.(?=\S)|mailto:(?=\S)`;
const addressBegin = new RegExp(String.raw`${addressStart}|:\\?\/\\?\/`, 'iy');
/** The rest of it ends at a space, at what cannot stand in an address, and before `](`, where the text of a link ends. */
const addressRest = /(?:[^\s<>[\]\u3000-\u303f\uff00-\uffef]|\](?!\())*/y;
/** What closes a sentence, a bracket or an emphasis around an address. */
const closing = new Set('.,;:!?)]}\'"’”»…*_~`|\\');
/** With what closes it. A longer one is no address that readers know: it is held back no further, and goes. */
export const longestAddress = 2_048;
/** Texts join addresses without a space, by a comma or a bracket; a run of more than these is no list of them. */
const addressesTogether = 16;

/** All addresses in a text, as a reply may say them again. */
export function addressesIn(text: string): string[] {
  const addresses: string[] = [];
  let runEnd = 0;
  let end = 0;
  let together = 0;
  for (const { index } of text.matchAll(new RegExp(addressStart, 'gi'))) {
    if (index >= runEnd) {
      runEnd = addressEnd(text, index);
      end = index + withoutClosing(text.slice(index, runEnd)).length;
      together = 0;
    }
    together += 1;
    if (together <= addressesTogether && runEnd - index <= longestAddress) addresses.push(text.slice(index, end));
  }
  return addresses;
}

/** Where the run of signs ends that begins as an address at `index`; signs that close it are part of it. */
export function addressEnd(text: string, index: number): number {
  return addressRestEnd(text, index + lengthAt(addressBegin, text, index));
}

/** The same from within it. */
export function addressRestEnd(text: string, index: number): number {
  return index + lengthAt(addressRest, text, index);
}

/** An address without what closes a sentence around it. By hand, as a pattern would try each sign within a run of them. */
export function withoutClosing(address: string): string {
  let end = address.length;
  while (closing.has(address[end - 1] ?? '')) end -= 1;
  return address.slice(0, end);
}

function lengthAt(pattern: RegExp, text: string, index: number): number {
  pattern.lastIndex = index;
  return pattern.exec(text)?.[0].length ?? 0;
}
