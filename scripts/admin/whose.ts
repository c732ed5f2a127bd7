import type { UserReference } from '#src/modules/operator/operator.service.ts';
import { isUuid } from './uuid.ts';

/** Parses the email, in any case, or the id of a user; undefined when it is neither. */
export function readWhose(text: string): UserReference | undefined {
  const word = text.trim().toLowerCase();
  if (isUuid(word)) return { userId: word };
  return /^\S+@\S+$/.test(word) ? { email: word } : undefined;
}

export const notWhose = (text: string) => `"${text}" is neither an email nor a user's id`;
