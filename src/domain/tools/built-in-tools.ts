import type { Tool, ToolAction } from '../tools.ts';

/** Of tools that need no connection: there is one action, and nobody has to grant it. */
function alone(tool: Omit<Tool, 'provider' | 'actions'>, action: Pick<ToolAction, 'label' | 'crudl'>): Tool {
  const { id, description } = tool;
  return { ...tool, provider: null, actions: [{ id, description, ...action, scopes: [] }] };
}

const address = (description: string) => ({ type: 'string', minLength: 1, maxLength: 2_048, description });

/** Tools that the service has itself. */
export const builtInTools: readonly Tool[] = [
  alone(
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
  alone(
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
  alone(
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
  alone(
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
  alone(
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
  alone(
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
 * Tools that give texts of others as they are. Only what they give is a source of addresses for a reply, and only an
 * address that a search gave may be asked for next: what a model sends to any other tool may come back out of it, and
 * out of a calendar even in a later answer.
 */
export const quotingTools: ReadonlySet<string> = new Set([
  'knowledge.search',
  'knowledge.read',
  'web.search',
  'web.fetch',
]);
export const searchTool = 'web.search';
