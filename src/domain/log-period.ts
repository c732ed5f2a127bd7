/** From this moment on, and before that one; null where it is open. */
export type Period = { from: Date | null; until: Date | null };

/**
 * A part of a period, as sums are kept: of all time, of whole months or days (UTC), or of what is left of a day, where
 * each chat is looked at.
 */
export type PeriodPart = { span: 'ever' | 'month' | 'day' | 'moment' } & Period;

/** The parts that make up a period, without a gap and without anything twice; at most five, of which one is months. */
export function partsOf({ from, until }: Period): PeriodPart[] {
  if (from === null && until === null) return [{ span: 'ever', from, until }];
  const months = { from: from && nextMonth(from), until: until && startOfMonth(until) };
  if (isEmpty(months)) return daysOf({ from, until });
  return [
    ...(from === null ? [] : daysOf({ from, until: months.from })),
    { span: 'month', ...months },
    ...(until === null ? [] : daysOf({ from: months.until, until })),
  ];
}

function daysOf({ from, until }: Period): PeriodPart[] {
  const days = { from: from && nextDay(from), until: until && startOfDay(until) };
  const parts: PeriodPart[] = isEmpty(days)
    ? [{ span: 'moment', from, until }]
    : [
        { span: 'moment', from, until: days.from },
        { span: 'day', ...days },
        { span: 'moment', from: days.until, until },
      ];
  return parts.filter((part) => !isEmpty(part));
}

const isEmpty = ({ from, until }: Period): boolean => from !== null && until !== null && from >= until;

const startOfDay = (at: Date): Date => new Date(Math.floor(at.getTime() / dayMs) * dayMs);
const nextDay = (at: Date): Date => new Date(Math.ceil(at.getTime() / dayMs) * dayMs);
const startOfMonth = (at: Date): Date => monthAt(at, 0);
const nextMonth = (at: Date): Date => (startOfMonth(at) < at ? monthAt(at, 1) : at);

const dayMs = 86_400_000;

function monthAt(at: Date, more: number): Date {
  const first = new Date(0);
  // Not by `Date.UTC`, which takes the years 0 to 99 for those of the last century.
  first.setUTCFullYear(at.getUTCFullYear(), at.getUTCMonth() + more, 1);
  return first;
}
