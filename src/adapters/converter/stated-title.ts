/** What programs write for a title when nobody gave one. */
const emptyTitle =
  /^(?:\(?anonymous\)?|untitled.*|(?:microsoft word|powerpoint presentation)\b.*|.*\.\w{2,5}|[^\p{L}\p{N}]*)$/iu;

/** The title among a document's properties; null when it says nothing. */
export function statedTitle(title: string): string | null {
  const text = title.trim().replace(/\s+/g, ' ');
  return emptyTitle.test(text) ? null : text;
}
