import { isBlank, isOneLine } from '#src/domain/text/plain-text.ts';

const maxCharacters = 60;
/** Of a message that shows nothing in its beginning. */
const fallback = 'Chat';

/** Colours of terminals, and what nobody sees but the joiners, which emoji and some scripts need. */
const unseen = /(?!\s)\p{Cc}\[[\d;]*[a-z]|[\u00ad\u061c\u200b\u200e\u200f\u2060-\u2064\ufeff]|[\u{e0000}-\u{e007f}]/giu;

/** What a chat is called until it gets a name: the beginning of its first message, on one line. */
export function messageTitle(message: string): string {
  const line = [...message.replace(unseen, '').replace(/\s+/g, ' ')].filter(isOneLine).join('').trim();
  const title = [...line].slice(0, maxCharacters).join('').trim();
  return isBlank(title) ? fallback : title;
}
