const MAX_TITLE_WORDS = 12;

/** The first words of a text, without the punctuation around them but the question mark of a question. */
export function createTitle(text: string): string {
  const words = text.trim().split(/\s+/).slice(0, MAX_TITLE_WORDS).join(' ');
  const [title = ''] = words.match(/[^\p{P}\s](?:.*[^\p{P}\s])?\??/u) ?? [];
  return title.charAt(0).toUpperCase() + title.slice(1) || 'Conversation';
}
