import { unknownToolIds } from '#src/domain/agents/tools.ts';
import { removeInvisibleCharacters } from '#src/domain/chat/context-blocks.ts';
import { escapeMarkdown } from '#src/domain/text/plain-text.ts';
import type { ChatHistory, Citation, Round } from './chat.model.ts';
import { toSourcesDto } from './chat.schema.ts';

export const chatExportFormats = ['markdown', 'json'] as const;

type ExportFormat = (typeof chatExportFormats)[number];

type ExportedChat = { fileName: string; mediaType: string; text: string };

export function exportChat(history: ChatHistory, format: ExportFormat): ExportedChat {
  const fileName = `${fileTitle(history.chat.title)}.${format === 'json' ? 'json' : 'md'}`;
  return format === 'json'
    ? { fileName, mediaType: 'application/json; charset=utf-8', text: `${JSON.stringify(toJson(history), null, 2)}\n` }
    : { fileName, mediaType: 'text/markdown; charset=utf-8', text: toMarkdown(history) };
}

function toJson({ chat, agentName, rounds }: ChatHistory) {
  return {
    chat_id: chat.id,
    agent: agentName,
    title: chat.title,
    created_at: chat.createdAt.toISOString(),
    turns: rounds.flatMap((round) => {
      const turn = { round: round.round, pruned: round.pruned };
      const question = { role: 'user', content: round.userContent, at: round.startedAt.toISOString(), ...turn };
      if (round.assistantReply === null) return [question];
      const at = round.finishedAt?.toISOString() ?? null;
      return [question, { role: 'assistant', content: round.assistantReply, at, ...toSourcesDto(round), ...turn }];
    }),
  };
}

function toMarkdown({ chat, agentName, rounds }: ChatHistory): string {
  const head = [`# ${chat.title}`, `Agent: ${agentName}  \nDate: ${chat.createdAt.toISOString().slice(0, 10)}`];
  const turns = rounds.flatMap((round) => [
    '## User',
    round.userContent,
    '## Assistant',
    ...toolsOf(round),
    replyOf(round),
    ...sourcesOf(round),
  ]);
  return `${[...head, ...turns].join('\n\n')}\n`;
}

function toolsOf({ toolCalls }: Round): string[] {
  if (toolCalls.length === 0) return [];
  // The model may have called a tool that does not exist; its name is untrusted text and is not exported.
  const names = toolCalls.map(({ tool, status }) => {
    const name = unknownToolIds([tool]).length === 0 ? tool : 'an unknown tool';
    return status === 'ok' ? name : `${name} (${status})`;
  });
  return [`*Called ${names.join(', ')}.*`];
}

function replyOf({ assistantReply, status, errorCode }: Round): string {
  return assistantReply ?? (status === 'open' ? '*Still being written.*' : `*No answer (${errorCode}).*`);
}

/** Lists the sources by the numbers that the reply uses. */
function sourcesOf({ citations }: Round): string[] {
  if (citations.length === 0) return [];
  return ['**Sources**', citations.map((citation, index) => `${index + 1}. ${sourceOf(citation)}`).join('\n')];
}

function sourceOf({ documentId, documentName, pageNumber, heading, quote }: Citation): string {
  const escaped = (text: string) => escapeMarkdown(removeInvisibleCharacters(text));
  const place = [
    escaped(documentName ?? `Document ${documentId}`),
    pageNumber !== undefined && `page ${pageNumber}`,
    heading != null && `under “${escaped(heading)}”`,
  ].filter((part) => part !== false);
  return `${place.join(', ')}${quote === undefined ? '' : `: “${escaped(quote)}”`}`;
}

function fileTitle(title: string): string {
  const name = title.replaceAll(/[\p{Cc}/\\:*?"<>|]+/gu, ' ').trim();
  return name.slice(0, 100).toWellFormed().trim() || 'chat';
}
