/** True if the text has no line breaks, control characters or characters that change the direction of text. */
export function isOneLine(text: string): boolean {
  return !/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u.test(text);
}

export function isBlank(text: string): boolean {
  return /^[\p{White_Space}\p{Default_Ignorable_Code_Point}\u2800]*$/u.test(text);
}

export function isStorableInPostgres(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

export function toPostgresText(text: string): string {
  return text.toWellFormed().replaceAll('\0', '');
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (sign) => entities[sign] ?? '');
}

/** Makes a text one line of Markdown without emphasis, links, images, HTML and autolinks. */
export function escapeMarkdown(text: string): string {
  return text
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/[\\`*_{}[\]<>|~&#!$@]/g, '\\$&')
    .replace(/:(?=\/\/)/g, '\\:')
    .replace(/\bwww\./gi, (prefix) => `${prefix.slice(0, -1)}\\.`);
}
