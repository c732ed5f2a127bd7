import type { Container } from '#src/container.ts';

/** Encrypts with the first key what others have, and says whether all of those can go. */
export async function reseal(
  { storedToolConnections, storedConnections }: Pick<Container, 'storedToolConnections' | 'storedConnections'>,
  print: (line: string) => void,
): Promise<boolean> {
  const counts = [await storedToolConnections.reencrypt(), await storedConnections.reencrypt()];
  const sum = (of: 'reencrypted' | 'unreadable') => counts.reduce((all, each) => all + each[of], 0);
  print(`encrypted anew: ${sum('reencrypted')}`);
  print(`cannot be read by any of the keys: ${sum('unreadable')}`);
  return sum('unreadable') === 0;
}
