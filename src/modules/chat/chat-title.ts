import { isBlank, isOneLine } from '#src/domain/plain-text.ts';

const maxCharacters = 60;
/** Of a message that shows nothing in its beginning. */
const fallback = 'Chat';

/** What a chat is called until it gets a name: the beginning of its first message, on one line. */
export function messageTitle(message: string): string {
  const line = [...message.replace(/\s+/g, ' ')].filter(isOneLine).join('').trim();
  const title = [...line].slice(0, maxCharacters).join('').trim();
  return isBlank(title) ? fallback : title;
}
