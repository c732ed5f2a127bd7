/** True when a text can be a name: nothing in it that breaks lines, moves the cursor or reorders what follows. */
export function isOneLine(text: string): boolean {
  return !/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u.test(text);
}

/** True for a text that shows nothing: spaces, and characters that nobody sees. */
export function isBlank(text: string): boolean {
  return /^[\p{White_Space}\p{Default_Ignorable_Code_Point}\u2800]*$/u.test(text);
}

/** True when the database can store it: Postgres has no NUL in text, and half a character is not Unicode. */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

/** What is left of a text when that which cannot be stored is taken out. */
export function toStorable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '');
}
