const MAX_TITLE_WORDS = 12;

/** Creates a title from the first words of a text; of the surrounding punctuation only a question mark is kept. */
export function createTitle(text: string): string {
  const words = text.trim().split(/\s+/).slice(0, MAX_TITLE_WORDS).join(' ');
  const [title = ''] = words.match(/[^\p{P}\s](?:.*[^\p{P}\s])?\??/u) ?? [];
  return title.charAt(0).toUpperCase() + title.slice(1) || 'Conversation';
}
