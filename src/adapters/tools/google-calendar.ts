import {
  arrayOrEmptyArray,
  parseProviderJson,
  recordOrEmptyObject,
  textOrEmptyString,
} from '#src/adapters/providers.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { ToolCredentials, ToolExecutor } from '#src/ports/tools.ts';
import type { ProviderHttpClient, ProviderHttpResponse } from '#src/ports/web.ts';
import { providerStatusError } from '../providers.ts';

const name = 'Google Calendar';
const defaultLimit = 20;
const defaultSpanMs = 30 * 24 * 3_600_000;
/** Limit of pages per listing: several may be needed, because Google may return fewer events than requested. */
const maxPages = 10;

type Deps = { call: ProviderHttpClient; credentials: ToolCredentials; baseUrl: string | null };

function createEvents({ call, baseUrl }: Pick<Deps, 'call' | 'baseUrl'>) {
  const root = `${baseUrl ?? 'https://www.googleapis.com'}/calendar/v3/calendars`;

  return async (token: string, request: Parameters<ProviderHttpClient>[1] & { calendarId: string; query?: object }) => {
    const { calendarId, query = {}, headers, ...rest } = request;
    // Path segments `.` and `..` would be resolved to another endpoint.
    if (/^\.{1,2}$/.test(calendarId)) throw unknownCalendar();
    const url = new URL(`${root}/${encodeURIComponent(calendarId)}/events`);
    url.search = new URLSearchParams({ ...query }).toString();
    const answer = await call(url.href, {
      ...rest,
      headers: { ...headers, accept: 'application/json', authorization: `Bearer ${token}` },
    });
    if (answer.status === 409) return null;
    if (answer.status !== 200) throw errorOf(answer);
    return recordOrEmptyObject(parseProviderJson(name, answer));
  };
}

function unknownCalendar(): AppError {
  return appError('tool_arguments_invalid', { detail: 'calendar_id must not be `.` or `..`.' });
}

/** Google answers 403 to missing permissions and to exceeded limits; the reason in the body tells them apart. */
function errorOf(answer: ProviderHttpResponse): AppError {
  const isLimit = answer.status === 403 && /"(?:\w*[rR]ateLimitExceeded|quotaExceeded)"/.test(answer.body);
  return providerStatusError(name, isLimit ? { ...answer, status: 429 } : answer);
}

export function createListEventsTool(deps: Deps): ToolExecutor {
  const events = createEvents(deps);
  return async ({ from, to, query, limit = defaultLimit, calendar_id = 'primary' }, { actor, signal }) => {
    const begin = from === undefined ? new Date() : momentOf('from', from);
    const end = to === undefined ? new Date(begin.getTime() + defaultSpanMs) : momentOf('to', to);
    const wanted = Number(limit);
    const found = await deps.credentials.use(actor, 'calendar.list_events', async (token) => {
      const items: unknown[] = [];
      let pageToken = '';
      for (let page = 0; page < maxPages && items.length < wanted; page += 1) {
        const answer = await events(token, {
          calendarId: String(calendar_id),
          query: {
            timeMin: begin.toISOString(),
            timeMax: end.toISOString(),
            singleEvents: 'true',
            orderBy: 'startTime',
            maxResults: String(wanted - items.length),
            ...(query !== undefined && { q: String(query) }),
            ...(pageToken !== '' && { pageToken }),
          },
          signal,
        });
        items.push(...arrayOrEmptyArray(answer?.items).slice(0, wanted));
        pageToken = textOrEmptyString(answer?.nextPageToken);
        if (pageToken === '') break;
      }
      return items.slice(0, wanted);
    });
    if (found.length === 0) return 'There are no events in this span.';
    return found.map(lineOf).join('\n');
  };
}

/** The tool `calendar.create_event`. Idempotent: the event id is derived from the call, so a retry finds the event. */
export function createCreateEventTool(deps: Deps): ToolExecutor {
  const events = createEvents(deps);
  return async (args, { actor, callKey, signal }) => {
    const { title, start, end, time_zone, description, location, calendar_id = 'primary' } = args;
    const event = {
      id: callKey,
      summary: title,
      start: eventTime('start', start, time_zone),
      end: eventTime('end', end, time_zone),
      ...(description !== undefined && { description }),
      ...(location !== undefined && { location }),
    };
    const made = await deps.credentials.use(actor, 'calendar.create_event', (token) =>
      events(token, {
        method: 'POST',
        calendarId: String(calendar_id),
        query: { sendUpdates: 'none' },
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(event),
        signal,
      }),
    );
    return `The event is in the calendar.\n${lineOf(made ?? event)}`;
  };
}

/** Formats an event: `2026-03-01T09:00:00+01:00 to 2026-03-01T10:00:00+01:00: Title (location) [id]` */
function lineOf(value: unknown): string {
  const event = recordOrEmptyObject(value);
  const title = short(event.summary, 300) || '(no title)';
  const location = short(event.location, 200);
  const text = short(event.description, 500);
  return [
    `${timeOf(event.start)} to ${timeOf(event.end)}: ${title}`,
    location && ` (${location})`,
    ` [${short(event.id, 100)}]`,
    text && `\n  ${text}`,
  ].join('');
}

function timeOf(value: unknown): string {
  const { dateTime, date } = recordOrEmptyObject(value);
  return short(dateTime, 40) || short(date, 40) || 'an unknown time';
}

function short(value: unknown, maxLength: number): string {
  return textOrEmptyString(value).replace(/\s+/g, ' ').trim().slice(0, maxLength);
}

function momentOf(field: string, value: unknown): Date {
  const moment = new Date(String(value));
  if (Number.isNaN(moment.getTime())) throw wrongTime(field);
  return moment;
}

function eventTime(field: string, value: unknown, timeZone: unknown): object {
  const text = String(value);
  momentOf(field, text);
  if (/^\d{4}-\d\d-\d\d$/.test(text)) return { date: text };
  if (!/(?:Z|[+-]\d\d:?\d\d)$/i.test(text) && timeZone === undefined) throw wrongTime(field);
  return { dateTime: text, ...(timeZone !== undefined && { timeZone }) };
}

function wrongTime(field: string): AppError {
  const detail = `${field} must be a time like 2026-03-01T09:00:00+01:00, or a time without offset and a time_zone.`;
  return appError('tool_arguments_invalid', { detail });
}
