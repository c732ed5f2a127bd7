import { startFakeProvider } from './fake-oauth.ts';
import type { ProviderReply } from './provider-server.ts';

type CalendarEvent = { id: string; summary?: string; start: object; end: object; [field: string]: unknown };

/** Fake of Google OAuth and the parts of Google Calendar that the service uses. */
export type FakeGoogle = Awaited<ReturnType<typeof startFakeGoogle>>;

export const googleError = (code: number, reason: string, message = reason): ProviderReply => ({
  status: code,
  json: { error: { code, message, errors: [{ domain: 'global', reason, message }] } },
});

export const googleOptions = {
  clientId: 'client-1.apps.example',
  paths: { authorize: '/o/oauth2/v2/auth', token: '/token', revoke: '/revoke' },
  isOffline: (asked: URLSearchParams) => asked.get('access_type') === 'offline' && asked.get('prompt') === 'consent',
  callback: { authuser: '0' },
  unauthorized: googleError(401, 'authError'),
};

export async function startFakeGoogle() {
  const events: CalendarEvent[] = [];

  function list({ searchParams }: URL): ProviderReply {
    const of = (name: string) => searchParams.get(name);
    const isMoment = (text: string | null) => text === null || /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$/.test(text);
    if (!isMoment(of('timeMin')) || !isMoment(of('timeMax'))) return googleError(400, 'badRequest');
    const found = events.filter(({ summary = '' }) => summary.toLowerCase().includes((of('q') ?? '').toLowerCase()));
    const from = Number(of('pageToken') ?? 0);
    // Google may return smaller pages than requested.
    const next = from + Math.min(Number(of('maxResults') ?? 250), 3);
    const items = found.slice(from, next);
    return { status: 200, json: next < found.length ? { items, nextPageToken: String(next) } : { items } };
  }

  function insert(body: string): ProviderReply {
    const event = Object(JSON.parse(body));
    if (!event.start || !event.end) return googleError(400, 'required');
    if (!/^[a-v0-9]{5,1024}$/.test(event.id)) return googleError(400, 'invalid');
    if (events.some(({ id }) => id === event.id)) return googleError(409, 'duplicate');
    const made = { ...event, htmlLink: 'https://calendar.example/event' };
    events.push(made);
    return { status: 200, json: made };
  }

  const provider = await startFakeProvider({ ...googleOptions, api: '/calendar/v3/' }, (call, caller) => {
    const isRead = call.method === 'GET';
    const scope = `https://www.googleapis.com/auth/calendar.${isRead ? 'readonly' : 'events'}`;
    if (!caller.scopes.includes(scope)) return googleError(403, 'insufficientPermissions');
    if (call.url.pathname !== '/calendar/v3/calendars/primary/events') return googleError(404, 'notFound');
    return isRead ? list(call.url) : insert(call.body);
  });
  return { ...provider, events };
}
