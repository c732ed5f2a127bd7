import { describeChat, isPending, type LoggedChat, type LoggedRound, streakOf, typeOf } from './logs.model.ts';

/** Formats in which logs can be taken away. */
export const logFormats = ['csv', 'jsonl'] as const;

export type LogFormat = (typeof logFormats)[number];

type Cell = string | number | boolean | null;

/** What a line says of a round and its chat, in order. Clients count on it: a new column comes at the end. */
const columns: readonly (readonly [name: string, cell: (chat: LoggedChat, round: LoggedRound) => Cell])[] = [
  ['chat_id', (chat) => chat.id],
  ['title', (chat) => chat.title],
  ['description', describeChat],
  ['agent_id', (chat) => chat.agentId],
  ['agent', (chat) => chat.agentName],
  ['started_at', (chat) => chat.startedAt.toISOString()],
  ['round', (_, { round }) => round],
  ['at', (_, { startedAt }) => startedAt.toISOString()],
  ['type', (_, round) => typeOf(round)],
  ['error_code', (_, { errorCode }) => errorCode],
  ['model', (_, { model }) => model],
  ['user_content', (_, { userContent }) => userContent],
  ['assistant_reply', (_, { assistantReply }) => assistantReply],
  ['scoring_pending', (_, round) => isPending(round)],
  ['state', (_, { echoState }) => echoState],
  ['ewma', (_, { ewma }) => ewma],
  ['alignment_score', (_, { alignmentScore }) => alignmentScore],
  ['user_on_or_off_topic_streak', (_, round) => streakOf(round)],
  ['input_tokens', (_, { inputTokens }) => inputTokens],
  ['completion_tokens', (_, { completionTokens }) => completionTokens],
  ['cost_usd', (_, { costUsd }) => costUsd],
  ['latency_ms', (_, { latencyMs }) => latencyMs],
];

const mediaTypes = { csv: 'text/csv; charset=utf-8; header=present', jsonl: 'application/x-ndjson; charset=utf-8' };

export const mediaTypeOf = (format: LogFormat): string => mediaTypes[format];

/** What stands before all lines. */
export const headOf = (format: LogFormat): string => (format === 'csv' ? csvLine(columns.map(([name]) => name)) : '');

/** A round as a line, with its end. */
export function lineOf(format: LogFormat, chat: LoggedChat, round: LoggedRound): string {
  const cells = columns.map(([name, cell]) => [name, cell(chat, round)] as const);
  return format === 'csv' ? csvLine(cells.map(([, cell]) => cell)) : `${JSON.stringify(Object.fromEntries(cells))}\n`;
}

/** RFC 4180. */
const csvLine = (cells: readonly Cell[]): string => `${cells.map(csvCell).join(',')}\r\n`;

/**
 * Texts that a spreadsheet would take for a formula get an apostrophe before them, as OWASP has it ("CSV injection"):
 * who opens the file must not run what somebody has written into a chat.
 */
function csvCell(cell: Cell): string {
  if (cell === null) return '';
  if (typeof cell !== 'string') return String(cell);
  const text = /^\s*[=+\-@\t\r\n＝＋－＠]/u.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
