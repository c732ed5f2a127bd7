import {
  describeLoggedChat,
  isScoringOfRoundPending,
  type LoggedChat,
  type LoggedRound,
  logTypeOfRound,
  topicStreakOfRound,
} from './logs.model.ts';

export const logExportFormats = ['csv', 'jsonl'] as const;

export type LogExportFormat = (typeof logExportFormats)[number];

type Cell = string | number | boolean | null;

/** Columns of the CSV export in order. Append new ones at the end, because clients depend on the order. */
const columns: readonly (readonly [name: string, cell: (chat: LoggedChat, round: LoggedRound) => Cell])[] = [
  ['chat_id', (chat) => chat.id],
  ['title', (chat) => chat.title],
  ['description', describeLoggedChat],
  ['agent_id', (chat) => chat.agentId],
  ['agent', (chat) => chat.agentName],
  ['started_at', (chat) => chat.startedAt.toISOString()],
  ['round', (_, { round }) => round],
  ['at', (_, { startedAt }) => startedAt.toISOString()],
  ['type', (_, round) => logTypeOfRound(round)],
  ['error_code', (_, { errorCode }) => errorCode],
  ['model', (_, { model }) => model],
  ['user_content', (_, { userContent }) => userContent],
  ['assistant_reply', (_, { assistantReply }) => assistantReply],
  ['scoring_pending', isScoringOfRoundPending],
  ['state', (_, { echoState }) => echoState],
  ['ewma', (_, { ewma }) => ewma],
  ['alignment_score', (_, { alignmentScore }) => alignmentScore],
  ['user_on_or_off_topic_streak', (_, round) => topicStreakOfRound(round)],
  ['input_tokens', (_, { inputTokens }) => inputTokens],
  ['completion_tokens', (_, { completionTokens }) => completionTokens],
  ['cost_usd', (_, { costUsd }) => costUsd],
  ['latency_ms', (_, { latencyMs }) => latencyMs],
  ['is_draft', ({ isDraft }) => isDraft],
];

const mediaTypes = { csv: 'text/csv; charset=utf-8; header=present', jsonl: 'application/x-ndjson; charset=utf-8' };

export const logExportMediaType = (format: LogExportFormat): string => mediaTypes[format];

export const logExportHeader = (format: LogExportFormat): string =>
  format === 'csv' ? csvLine(columns.map(([name]) => name)) : '';

export function logExportLine(format: LogExportFormat, chat: LoggedChat, round: LoggedRound): string {
  const cells = columns.map(([name, cell]) => [name, cell(chat, round)] as const);
  return format === 'csv' ? csvLine(cells.map(([, cell]) => cell)) : `${JSON.stringify(Object.fromEntries(cells))}\n`;
}

const csvLine = (cells: readonly Cell[]): string => `${cells.map(csvCell).join(',')}\r\n`;

/**
 * Puts an apostrophe before texts that a spreadsheet would evaluate as a formula (OWASP, "CSV injection").
 */
function csvCell(cell: Cell): string {
  if (cell === null) return '';
  if (typeof cell !== 'string') return String(cell);
  const text = /^\s*[=+\-@\t\r\n＝＋－＠]/u.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
