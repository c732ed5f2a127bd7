/** Minute, hour, day of the month, month, day of the week: the smallest and the largest value of each. */
const ranges = [
  [0, 59],
  [0, 23],
  [1, 31],
  [1, 12],
  [0, 7],
] as const;

/** True for five fields of numbers, with `*`, `-`, `,` and `/`. */
export function isCron(text: string): boolean {
  const fields = text.trim().split(/\s+/);
  return fields.length === ranges.length && ranges.every((range, index) => isField(fields[index] ?? '', range));
}

function isField(field: string, [smallest, largest]: readonly [number, number]): boolean {
  return field.split(',').every((part) => {
    const [, from, to, step] = /^(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:\/([1-9]\d?))?$/.exec(part) ?? [];
    if (from === undefined) return part === '*' || step !== undefined;
    const first = Number(from);
    const last = Number(to ?? from);
    return smallest <= first && first <= last && last <= largest;
  });
}
