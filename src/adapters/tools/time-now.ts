import { z } from 'zod';
import { appError } from '#src/errors.ts';
import type { ToolExecutor } from '#src/ports/tools.ts';

const argumentsOf = z.object({ time_zone: z.string().default('UTC') });

/** `time.now`, such as `Sunday, 2026-11-22 15:04:05 GMT+01:00 (Europe/Berlin)`. */
export function createTimeTool(now: () => Date = () => new Date()): ToolExecutor {
  return async (args) => {
    const { time_zone: timeZone } = argumentsOf.parse(args);
    // Swedes write times as ISO 8601 does.
    const time = format('sv-SE', timeZone, { dateStyle: 'short', timeStyle: 'medium' });
    const day = format('en-GB', timeZone, { weekday: 'long' });
    const offset = format('en-GB', timeZone, { timeZoneName: 'longOffset' }).split(', ').at(-1);
    return `${day}, ${time} ${offset} (${timeZone})`;
  };

  function format(locale: string, timeZone: string, options: Intl.DateTimeFormatOptions): string {
    try {
      return new Intl.DateTimeFormat(locale, { ...options, timeZone }).format(now());
    } catch {
      throw appError('tool_arguments_invalid', { detail: 'time_zone is no IANA zone, like Europe/Berlin.' });
    }
  }
}
