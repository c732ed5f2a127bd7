import type { Container } from '#src/container.ts';

/** Encrypts with the first key what others have, and says whether all of those can go. */
export async function reseal(
  { connectionSecrets }: Pick<Container, 'connectionSecrets'>,
  print: (line: string) => void,
): Promise<boolean> {
  const { resealed, unreadable } = await connectionSecrets.reseal();
  print(`encrypted anew: ${resealed}`);
  print(`cannot be read by any of the keys: ${unreadable}`);
  return unreadable === 0;
}
