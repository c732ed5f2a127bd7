import type { Tool } from '../tools.ts';

export const calendarReadScope = 'https://www.googleapis.com/auth/calendar.readonly';
export const calendarWriteScope = 'https://www.googleapis.com/auth/calendar.events';

const calendarId = {
  type: 'string',
  minLength: 1,
  maxLength: 256,
  description: 'The calendar; without it the primary one of the connected account.',
};
const moment = (description: string) => ({ type: 'string', minLength: 10, maxLength: 40, description });

/** Tools that work through an organization's connection to a provider. */
export const providerTools: readonly Tool[] = [
  {
    id: 'web.search',
    name: 'Web search',
    group: 'web',
    description: 'Search the public web with Brave Search. Gives titles, addresses and short extracts, best first.',
    provider: 'brave_search',
    actions: [
      {
        id: 'web.search',
        label: 'Search the web',
        description: 'Send search texts to Brave Search and read what it finds.',
        crudl: 'list',
        scopes: [],
      },
    ],
    parameters: {
      type: 'object',
      properties: {
        query: { type: 'string', minLength: 1, maxLength: 400, description: 'What to look for, in a few words.' },
        count: { type: 'integer', minimum: 1, maximum: 20, description: 'How many results; 8 without it.' },
        page: { type: 'integer', minimum: 1, maximum: 10, description: 'The next results of the same search.' },
      },
      required: ['query'],
      additionalProperties: false,
    },
  },
  {
    id: 'calendar.list_events',
    name: 'List calendar events',
    group: 'calendar',
    description: "List the events of the organization's Google Calendar in a span of time, earliest first.",
    provider: 'google_calendar',
    actions: [
      {
        id: 'calendar.list_events',
        label: 'See events',
        description: 'Read the events of the calendars that the connected account sees.',
        crudl: 'list',
        scopes: [calendarReadScope],
      },
    ],
    parameters: {
      type: 'object',
      properties: {
        from: moment('The beginning of the span, such as 2026-03-01T00:00:00Z; now without it.'),
        to: moment('The end of the span; thirty days after its beginning without it.'),
        query: { type: 'string', minLength: 1, maxLength: 200, description: 'Words that the events hold.' },
        limit: { type: 'integer', minimum: 1, maximum: 50, description: 'How many events at most; 20 without it.' },
        calendar_id: calendarId,
      },
      additionalProperties: false,
    },
  },
  {
    id: 'calendar.create_event',
    name: 'Create a calendar event',
    group: 'calendar',
    description: "Put an event into the organization's Google Calendar. Nobody is invited to it.",
    provider: 'google_calendar',
    actions: [
      {
        id: 'calendar.create_event',
        label: 'Create events',
        description: 'Put new events into the calendars that the connected account may change.',
        crudl: 'create',
        scopes: [calendarWriteScope],
      },
    ],
    parameters: {
      type: 'object',
      properties: {
        title: { type: 'string', minLength: 1, maxLength: 300 },
        start: moment('When it begins, with its offset, such as 2026-03-01T09:00:00+01:00; a day alone lasts all day.'),
        end: moment('When it ends, written as its beginning is; of whole days the day after the last.'),
        time_zone: { type: 'string', maxLength: 64, description: 'An IANA zone, for times without an offset.' },
        description: { type: 'string', maxLength: 4_000 },
        location: { type: 'string', maxLength: 300 },
        calendar_id: calendarId,
      },
      required: ['title', 'start', 'end'],
      additionalProperties: false,
    },
  },
];
