const maxCharacters = 60;

/** What a chat is called until it gets a name: the beginning of its first message, on one line. */
export function messageTitle(message: string): string {
  return [...message.replace(/\s+/g, ' ').trim()].slice(0, maxCharacters).join('').trim();
}
