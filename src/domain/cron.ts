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

/** How far apart the minutes of a sound expression are at least, also from one hour to the next. */
export function cronMinutesApart(text: string): number {
  const field = text.trim().split(/\s+/)[0] ?? '';
  const minutes = Array.from({ length: 60 }, (_, minute) => minute).filter((minute) =>
    field.split(',').some((part) => isInPart(part, minute)),
  );
  const gaps = minutes.map((minute, index) => (minutes[index + 1] ?? 60 + (minutes[0] ?? 0)) - minute);
  return Math.min(...gaps);
}

function isInPart(part: string, minute: number): boolean {
  const [range = '', step = '1'] = part.split('/');
  const [from = '0', to] = range === '*' ? ['0', '59'] : range.split('-');
  const last = to ?? (part.includes('/') ? '59' : from);
  return Number(from) <= minute && minute <= Number(last) && (minute - Number(from)) % Number(step) === 0;
}
