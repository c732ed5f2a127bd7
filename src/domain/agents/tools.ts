/** A permission that a tool needs and administrators grant. `crudl`: create, read, update, delete, list. */
export type ToolAction = {
  id: string;
  label: string;
  description: string;
  crudl: 'create' | 'read' | 'update' | 'delete' | 'list';
  scopes: readonly string[];
};

export type Tool = {
  /** Tool id `group.verb`; the model calls the tool by `functionNameOfTool(id)`. */
  id: string;
  name: string;
  group: string;
  description: string;
  provider: string | null;
  actions: readonly ToolAction[];
  parameters: Readonly<Record<string, unknown>>;
};

function withoutProvider(tool: Omit<Tool, 'provider' | 'actions'>, action: Pick<ToolAction, 'label' | 'crudl'>): Tool {
  const { id, description } = tool;
  return { ...tool, provider: null, actions: [{ id, description, ...action, scopes: [] }] };
}

const address = (description: string) => ({ type: 'string', minLength: 1, maxLength: 2_048, description });

const builtInTools: readonly Tool[] = [
  withoutProvider(
    {
      id: 'knowledge.search',
      name: 'Search documents',
      group: 'knowledge',
      description:
        'Find passages in the documents that the user may read. Gives numbered passages, which an answer cites like [3], and the ids of their documents.',
      parameters: {
        type: 'object',
        properties: {
          query: { type: 'string', minLength: 1, maxLength: 1_000, description: 'What to look for, in plain words.' },
        },
        required: ['query'],
        additionalProperties: false,
      },
    },
    { label: 'Search documents', crudl: 'list' },
  ),
  withoutProvider(
    {
      id: 'knowledge.read',
      name: 'Read a document',
      group: 'knowledge',
      description:
        'Read a document from its beginning, a part at a time, by the id that a search has given. Gives numbered passages, which an answer cites like [3].',
      parameters: {
        type: 'object',
        properties: {
          document_id: { type: 'string', minLength: 1, maxLength: 64, description: 'The id of the document.' },
          part: { type: 'integer', minimum: 1, maximum: 100_000, description: 'Which part; the first without it.' },
        },
        required: ['document_id'],
        additionalProperties: false,
      },
    },
    { label: 'Read documents', crudl: 'read' },
  ),
  withoutProvider(
    {
      id: 'web.fetch',
      name: 'Read a web page',
      group: 'web',
      description:
        "Read the text of a web page, PDF or other file. Only an address that the user or the agent's prompt has written out, or that a web search has found in this answer.",
      parameters: {
        type: 'object',
        properties: { url: address('The whole address, as it was written.') },
        required: ['url'],
        additionalProperties: false,
      },
    },
    { label: 'Read web pages', crudl: 'read' },
  ),
  withoutProvider(
    {
      id: 'http.request',
      name: 'Ask an HTTP service',
      group: 'http',
      description: 'Get what a service answers at an address (GET). Only hosts that the deployment allows.',
      parameters: {
        type: 'object',
        properties: { url: address('The whole address, with its query.') },
        required: ['url'],
        additionalProperties: false,
      },
    },
    { label: 'Ask HTTP services', crudl: 'read' },
  ),
  withoutProvider(
    {
      id: 'time.now',
      name: 'Date and time',
      group: 'time',
      description: 'The date, the day of the week and the time of now.',
      parameters: {
        type: 'object',
        properties: {
          time_zone: { type: 'string', maxLength: 64, description: 'An IANA zone like Europe/Berlin; UTC without it.' },
        },
        additionalProperties: false,
      },
    },
    { label: 'Tell the time', crudl: 'read' },
  ),
  withoutProvider(
    {
      id: 'math.evaluate',
      name: 'Calculate',
      group: 'math',
      description:
        'Work out an expression, like (1200 * 0.035) / 12, round(sqrt(2), 3), 5 inch to cm, mean([1, 2, 4]).',
      parameters: {
        type: 'object',
        properties: {
          expression: { type: 'string', minLength: 1, maxLength: 2_000, description: 'The expression.' },
        },
        required: ['expression'],
        additionalProperties: false,
      },
    },
    { label: 'Calculate', crudl: 'read' },
  ),
];

/**
 * Ids of tools that return third-party texts unchanged. Only results of these tools add URLs that a reply may contain,
 * and only URLs found by a search may be fetched by `web.fetch`. Results of other tools add none, because they may
 * repeat what the model sent to the tool; a calendar may do so even in a later chat.
 */
export const toolsReturningThirdPartyText: ReadonlySet<string> = new Set([
  'knowledge.search',
  'knowledge.read',
  'web.search',
  'web.fetch',
]);
export const webSearchToolId = 'web.search';

const calendarReadScope = 'https://www.googleapis.com/auth/calendar.readonly';
const calendarWriteScope = 'https://www.googleapis.com/auth/calendar.events';

const calendarId = {
  type: 'string',
  minLength: 1,
  maxLength: 256,
  description: 'The calendar; without it the primary one of the connected account.',
};
const moment = (description: string) => ({ type: 'string', minLength: 10, maxLength: 40, description });

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
    description: "Put an event into the organization's Google Calendar. It invites no guests.",
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

type CredentialField = { id: string; label: string; description: string; secret: boolean };

type ScopeOption = { id: string; label: string; description: string };

export type ToolProvider = {
  id: string;
  name: string;
  category: 'integration';
  auth: { kind: 'api_key'; fields: readonly CredentialField[] } | { kind: 'oauth'; scopes: readonly ScopeOption[] };
};

export const toolProviders: readonly ToolProvider[] = [
  {
    id: 'brave_search',
    name: 'Brave Search',
    category: 'integration',
    auth: {
      kind: 'api_key',
      fields: [
        {
          id: 'api_key',
          label: 'API key',
          description: 'The subscription token from the dashboard of the Brave Search API.',
          secret: true,
        },
      ],
    },
  },
  {
    id: 'google_calendar',
    name: 'Google Calendar',
    category: 'integration',
    auth: {
      kind: 'oauth',
      scopes: [
        { id: calendarReadScope, label: 'See events', description: 'Read the calendars of the account.' },
        { id: calendarWriteScope, label: 'Change events', description: 'Create and change events of the account.' },
      ],
    },
  },
];

export const allTools: readonly Tool[] = [...builtInTools, ...providerTools];

export function unknownToolIds(ids: readonly string[]): string[] {
  return ids.filter((id) => !allTools.some((tool) => tool.id === id));
}

export function functionNameOfTool(toolId: string): string {
  return toolId.replaceAll('.', '_');
}

/** A call of a tool for an answer, as the round stores it. */
export type ToolCallRecord = {
  id: string;
  /** The tool's id; if the model called a tool that does not exist, the name that it used. */
  tool: string;
  /** The parsed arguments; if the call was refused before the tool ran, the model's raw text, truncated. */
  arguments: Record<string, unknown> | string;
  status: 'ok' | 'error' | 'timeout' | 'refused';
  errorCode: string | null;
  startedAt: string;
  durationMs: number;
  /**
   * Beginning of the tool's result, for readers of the chat. Passages appear only as a count and document ids, because
   * some readers may not read the documents.
   */
  resultPreview: string;
  /** Length of the whole result, even if the model received a truncated one. */
  resultCharacters: number;
};
