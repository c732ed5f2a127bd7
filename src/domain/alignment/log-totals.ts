/** A half-open period: `from` is inclusive, `until` exclusive; null is unbounded. */
export type ReportPeriod = { from: Date | null; until: Date | null };

/**
 * A part of a reporting period. Totals are stored for all time (`ever`), for months and for days (UTC). A `moment` is
 * part of a day; its totals are computed from the individual chats.
 */
export type ReportPeriodPart = { span: 'ever' | 'month' | 'day' | 'moment' } & ReportPeriod;

export function splitReportPeriod({ from, until }: ReportPeriod): ReportPeriodPart[] {
  if (from === null && until === null) return [{ span: 'ever', from, until }];
  const months = { from: from && nextMonth(from), until: until && startOfMonth(until) };
  if (isEmpty(months)) return daysOf({ from, until });
  return [
    ...(from === null ? [] : daysOf({ from, until: months.from })),
    { span: 'month', ...months },
    ...(until === null ? [] : daysOf({ from: months.until, until })),
  ];
}

function daysOf({ from, until }: ReportPeriod): ReportPeriodPart[] {
  const days = { from: from && nextDay(from), until: until && startOfDay(until) };
  const parts: ReportPeriodPart[] = isEmpty(days)
    ? [{ span: 'moment', from, until }]
    : [
        { span: 'moment', from, until: days.from },
        { span: 'day', ...days },
        { span: 'moment', from: days.until, until },
      ];
  return parts.filter((part) => !isEmpty(part));
}

const isEmpty = ({ from, until }: ReportPeriod): boolean => from !== null && until !== null && from >= until;

const startOfDay = (at: Date): Date => new Date(Math.floor(at.getTime() / dayMs) * dayMs);
const nextDay = (at: Date): Date => new Date(Math.ceil(at.getTime() / dayMs) * dayMs);
const startOfMonth = (at: Date): Date => monthAt(at, 0);
const nextMonth = (at: Date): Date => (startOfMonth(at) < at ? monthAt(at, 1) : at);

const dayMs = 86_400_000;

function monthAt(at: Date, more: number): Date {
  const first = new Date(0);
  // Uses `setUTCFullYear`, because `Date.UTC` would read the years 0 to 99 as 1900 to 1999.
  first.setUTCFullYear(at.getUTCFullYear(), at.getUTCMonth() + more, 1);
  return first;
}

export const namesOfRoundTotals = [
  'rounds',
  'completed_rounds',
  'stable_rounds',
  'watch_rounds',
  'drift_rounds',
  'refusal_rounds',
  'ewma_sum',
  'input_tokens',
  'completion_tokens',
  'cost_usd',
  'latency_ms',
];
