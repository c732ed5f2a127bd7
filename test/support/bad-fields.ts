/** Texts that show nothing. */
export const blankNames = ['', '  ', '\u00a0', '\u200b', '\u3164'];

export const badNames = [7, null, [], {}, 'x'.repeat(201), 'two\nlines', 'tab\t', 'Ad\u202ea', 'A\0', '\ud800'];

export const badEmails = [
  ...[7, null, [], {}, '', ' ', 'ada', 'ada@', 'ada@example', 'ada\0@example.com', `${'a'.repeat(400)}@example.com`],
  // U+0430 and U+FF0E look like Latin characters, and U+200B is invisible.
  ...['\u0430da@example.com', 'ada@ex\u0430mple.com', 'ada@example\uff0ecom', 'ad\u200ba@example.com'],
];

export const badPasswords = [
  ...[7, null, {}, '', ' '.repeat(10), 'Short-1', 'no-uppercase-1', 'No-digit-here', `Long-1${'x'.repeat(123)}`],
  ...['Correct-horse-1\0', 'Correct-horse-1\ud800'],
];

export const badSwitches = [null, 'true', 1, [], ''];
