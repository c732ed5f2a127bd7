import { addressesIn, withoutClosing } from './addresses.ts';

/**
 * Does the address stand in one of the texts, whole and to the letter? People leave out `https://` and the last slash,
 * and programs put them there; nothing else may be added, left out or changed.
 */
export function standsIn(address: string, texts: readonly string[]): boolean {
  const asked = bare(address);
  return asked !== '' && texts.some((text) => text.includes(asked) && namesIn(text).has(asked));
}

function namesIn(text: string): Set<string> {
  const words = text.split(/[\s<>"'`()[\]{}|]+/).map(withoutClosing);
  return new Set([...words, ...addressesIn(text).flatMap(balanced)].map(bare));
}

/** A bracket that closes a part of the address was taken for one around it. */
function balanced(address: string): string[] {
  return address.split('(').length > address.split(')').length ? [address, `${address})`] : [address];
}

function bare(address: string): string {
  return address
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/\/$/, '');
}
