/** Sync schedule as in the API and the database. `cron` is in UTC; either `cron` or `interval_minutes` is set. */
export type SyncConfig = {
  enabled: boolean;
  interval_minutes?: number | undefined;
  cron?: string | undefined;
  folder?: string | undefined;
  target_folder_id?: string | null | undefined;
  delete_missing?: boolean | undefined;
};

const cronRanges = [
  [0, 59],
  [0, 23],
  [1, 31],
  [1, 12],
  [0, 7],
] as const;

/**
 * Validates a cron expression of five numeric fields with `*`, `-`, `,` and `/`. Temporal reads and runs the
 * expression: this check only rejects it early, with a clear error. Cron libraries accept forms that Temporal does not,
 * such as `L`.
 */
export function isSupportedCron(text: string): boolean {
  const fields = text.trim().split(/\s+/);
  return fields.length === cronRanges.length && cronRanges.every((range, index) => isField(fields[index] ?? '', range));
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

const longestMonths = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** False for a valid cron expression that never matches a date, such as the 31st of February. */
export function cronMatchesSomeDate(text: string): boolean {
  const [, , days = '', months = ''] = text.trim().split(/\s+/);
  return longestMonths.some(
    (length, index) =>
      isInField(months, index + 1, 1) &&
      Array.from({ length }, (_, day) => day + 1).some((day) => isInField(days, day, 1)),
  );
}

/**
 * @returns the smallest interval in minutes between two runs of a cron expression, including the interval from one hour
 * to the next
 */
export function smallestCronIntervalMinutes(text: string): number {
  const field = text.trim().split(/\s+/)[0] ?? '';
  const minutes = Array.from({ length: 60 }, (_, minute) => minute).filter((minute) => isInField(field, minute, 0));
  const gaps = minutes.map((minute, index) => (minutes[index + 1] ?? 60 + (minutes[0] ?? 0)) - minute);
  return Math.min(...gaps);
}

/** @param smallest the smallest allowed value of the cron field, from which steps (`/n`) count */
function isInField(field: string, value: number, smallest: number): boolean {
  return field.split(',').some((part) => {
    const [range = '', step] = part.split('/');
    const [from, to] = range === '*' ? [smallest] : range.split('-').map(Number);
    if (from === undefined || value < from || (value - from) % Number(step ?? 1) !== 0) return false;
    const isOpen = range === '*' || (to === undefined && step !== undefined);
    return isOpen || value <= (to ?? from);
  });
}
