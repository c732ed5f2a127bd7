/** What shows nothing. */
export const blankNames = ['', '  ', '\u00a0', '\u200b', '\u3164'];

/** What is no name, wherever one is asked for. */
export const badNames = [7, null, [], {}, 'x'.repeat(201), 'two\nlines', 'tab\t', 'Ad\u202ea', 'A\0', '\ud800'];

/** Among them one with a Cyrillic letter that looks like ours. */
export const badEmails = [
  7,
  null,
  [],
  '',
  ' ',
  'ada',
  'ada@',
  'ada@example',
  '\u0430da@example.com',
  'ada\0@example.com',
];

export const badPasswords = [
  7,
  null,
  {},
  '',
  ' '.repeat(10),
  'Short-1',
  'no-uppercase-1',
  'No-digit-here',
  `Long-1${'x'.repeat(123)}`,
];

export const badSwitches = [null, 'true', 1, [], ''];

/** One body for each bad value of a field, beside fields that are right. */
export function eachBad(right: object, field: string, values: readonly unknown[]): object[] {
  return values.map((value) => ({ ...right, [field]: value }));
}
