import type { Container } from '#src/container.ts';
import type { RescoreWish } from './rescore-wish.ts';

/** Asks for chats to be scored again, or tells how many still wait. A worker does the work. @returns true */
export async function rescore(
  { alignment }: Pick<Container, 'alignment'>,
  { orgId, act }: RescoreWish,
  print: (line: string) => void,
): Promise<boolean> {
  const waiting = act === 'start' ? await alignment.requestRescoring(orgId) : await alignment.countRescoring(orgId);
  print(`Chats that wait to be scored again: ${waiting}.`);
  return true;
}
