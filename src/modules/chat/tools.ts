import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { allTools, type Tool } from '#src/domain/agents/tools.ts';
import {
  containsModelInstructions,
  foundPassagesMessage,
  removeInvisibleCharacters,
  type Spotlight,
  toolResultMessage,
  toolResultPreview,
} from '#src/domain/chat/context-blocks.ts';
import { toPostgresText } from '#src/domain/text/plain-text.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import { appError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { RetrievalService, RetrievedChunk } from '#src/modules/retrieval/retrieval.service.ts';
import type { ToolCatalogService } from '#src/modules/tools/tool-catalog.service.ts';
import type { ToolCallContext, ToolExecutor } from '#src/ports/tools.ts';
import { type Chat, type ChatAgent, retrievalSettings } from './chat.model.ts';
import type { ReplyCitations } from './citations.ts';

/**
 * Passages found by a tool, which a reply may cite. `note` writes a note about them for the model from their citation
 * numbers.
 */
export type FoundPassages = { chunks: RetrievedChunk[]; note: (numbers: readonly number[]) => string };

export type ToolOutput = string | FoundPassages;

export type RunnableTool = {
  tool: Tool;
  run(args: Readonly<Record<string, unknown>>, context: ToolCallContext): Promise<ToolOutput>;
};

export type RoundToolChooser = ReturnType<typeof createRoundToolChooser>;

/**
 * Chooses which tools the model may call in a round: those tools of the agent that the organization can use now.
 * Document tools are offered only in chats with documents.
 */
export function createRoundToolChooser(deps: {
  toolCatalog: Pick<ToolCatalogService, 'usableToolIds'>;
  /** Executors by tool id, except for the document tools, which this file implements. */
  executors: ReadonlyMap<string, ToolExecutor>;
  retrieval: Pick<RetrievalService, 'retrieve' | 'readPart'>;
  models: Pick<ModelsService, 'contextBudget'>;
}) {
  const { toolCatalog, executors, retrieval, models } = deps;

  function knowledgeTools(chat: Chat, agent: ChatAgent): Map<string, RunnableTool['run']> {
    const { reranking, ...selection } = retrievalSettings(chat, agent);
    return new Map<string, RunnableTool['run']>([
      [
        'knowledge.search',
        async ({ query }, { actor, signal }) => {
          const contextTokens = await models.contextBudget(agent.chatModel);
          const request = { query: String(query), reranking, ...selection, contextTokens, signal };
          const { chunks } = await retrieval.retrieve(actor, request);
          if (chunks.length === 0) return 'No passage of the documents fits this search.';
          return { chunks, note: (numbers) => documentsOf(chunks, numbers) };
        },
      ],
      [
        'knowledge.read',
        async ({ document_id, part = 1 }, { actor }) => {
          const documentId = String(document_id).toLowerCase();
          const { chunks, parts } = await retrieval.readPart(actor, { ...selection, documentId, part: Number(part) });
          if (chunks.length === 0)
            throw appError('tool_arguments_invalid', { detail: `The document has ${parts} parts.` });
          return { chunks, note: () => `This is part ${part} of ${parts} of document ${documentId}.` };
        },
      ],
    ]);
  }

  return async (actor: RequestActor, chat: Chat, agent: ChatAgent): Promise<RunnableTool[]> => {
    if (agent.enabledTools.length === 0) return [];
    const usable = await toolCatalog.usableToolIds(actor.orgId);
    const known = new Map<string, RunnableTool['run']>([
      ...executors,
      ...(chat.ragEnabled ? knowledgeTools(chat, agent) : []),
    ]);
    return allTools.flatMap((tool) => {
      const run = known.get(tool.id);
      const isOffered = agent.enabledTools.includes(tool.id) && usable.has(tool.id);
      return run === undefined || !isOffered ? [] : [{ tool, run }];
    });
  };
}

function documentsOf(chunks: readonly RetrievedChunk[], numbers: readonly number[]): string {
  const lines = numbers.map((number, index) => `Passage ${number} is of document ${chunks[index]?.documentId}.`);
  return lines.join('\n');
}

export type ToolArguments = Readonly<Record<string, unknown>>;

export const maxToolArgumentCharacters = 4_000;

const anyArguments = z.record(z.string(), z.unknown());
const schemas = new WeakMap<Tool, z.ZodType>();

function schemaOf(tool: Tool): z.ZodType {
  const schema = schemas.get(tool) ?? z.fromJSONSchema(tool.parameters);
  schemas.set(tool, schema);
  return schema;
}

export function parseToolArguments(tool: Tool, json: string): ToolArguments {
  const parsed = schemaOf(tool).safeParse(anyArguments.safeParse(parseJson(json)).data);
  if (parsed.success) return storable(anyArguments.parse(parsed.data));
  const issues = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'arguments'}: ${message}`);
  throw appError('tool_arguments_invalid', { detail: issues.slice(0, 5).join('; ') });
}

/** Returns `{}` for arguments that are not a JSON object, because providers reject anything else. */
export function toolArgumentsForModel(json: string): string {
  return anyArguments.safeParse(parseJson(json)).success ? json || '{}' : '{}';
}

function parseJson(json: string): unknown {
  if (json.length > maxToolArgumentCharacters) return undefined;
  try {
    return JSON.parse(json || '{}');
  } catch {
    return undefined;
  }
}

/** Removes characters that Postgres cannot store, such as NUL, which JSON escapes can encode. */
function storable(args: ToolArguments): ToolArguments {
  const text = JSON.stringify(args, (_key, part: unknown) => (typeof part === 'string' ? toPostgresText(part) : part));
  return anyArguments.parse(JSON.parse(text));
}

export function collectStrings(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(collectStrings) : [];
}

/**
 * Returns the strings of an argument that are compared with untrusted texts: the text itself and, if it is a URL, its
 * path segments and parameters, encoded and decoded.
 */
export function urlAndItsDecodedParts(text: string): string[] {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) return [text];
  const base = `${url.origin}${url.pathname}`;
  const parameters = [...url.searchParams].flatMap(([name, value]) => [name, value, `${base}?${name}=${value}`]);
  const parts = [url.href, ...url.pathname.split('/'), ...parameters, url.hash.slice(1)];
  return [text, ...parts, ...parts.map(decoded)];
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function normalizeTextForComparison(text: string): string {
  return removeInvisibleCharacters(text).toLowerCase().replace(/\s+/g, ' ').trim();
}

/** Maximum characters of a tool's text result; longer texts distract a model. */
const resultCharacters = 8_000;
/** Maximum characters of all passages of one tool result: as much as one search returns. */
const passageCharacters = 14_000;
const minPassageCharacters = 200;
/**
 * Stands for the real citation numbers while a result is fitted to its token budget; no real number takes more tokens.
 */
const widestNumber = 999;
const noRoom = 'There is no room for what the tool gave: answer with what there is.';

type FormattedResult = {
  message: string;
  /** Text that users see in the stored record of the tool call. */
  preview: string;
  /** Length of the tool's whole output, even if the model receives a truncated one. */
  characters: number;
  texts: string[];
};

/** Formats a tool's output for the model, truncated to a token budget; the message is `noRoom` if nothing fits. */
export function createToolResultFormatter(deps: {
  tokenCounter: TokenCounter;
  spotlight: Spotlight;
  citations: Pick<ReplyCitations, 'add'>;
}) {
  const { tokenCounter, spotlight, citations } = deps;

  function formatText(tool: string, output: string, tokens: number): FormattedResult {
    // Truncates a tool's output before cleaning it, because cleaning a large output takes long.
    const text = truncateTextWithMark(toPostgresText(output.slice(0, resultCharacters + 1)), resultCharacters);
    const nonce = randomNonce();
    const write = (characters: number) =>
      toolResultMessage(tool, truncateTextWithMark(text, characters), nonce, spotlight);
    const characters = charactersThatFit(resultCharacters, 1, tokens, write);
    return {
      message: characters === null ? noRoom : write(characters),
      preview: toolResultPreview(text),
      characters: output.length,
      texts: characters === null ? [] : [text],
    };
  }

  function formatPassages({ chunks, note }: FoundPassages, tokens: number): FormattedResult {
    const nonce = randomNonce();
    const passages = chunks.map(({ documentName, pageNumber, content }) => {
      return {
        documentName,
        pageNumber,
        content,
        addressesModel: containsModelInstructions(`${documentName}\n${content}`),
      };
    });
    const write = (numbers: readonly number[], characters: number) => {
      const written = passages.slice(0, numbers.length).map(({ content, ...passage }, index) => {
        const text = truncateTextWithMark(content, Math.floor(characters / numbers.length));
        return { ...passage, text, number: numbers[index] ?? 0 };
      });
      return foundPassagesMessage(written, note(numbers), nonce, spotlight);
    };
    const { count, characters } = passagesThatFit(chunks.length, tokens, write);
    const numbers = citations.add(chunks.slice(0, count));
    return {
      message: count === 0 ? noRoom : write(numbers, characters),
      preview: toolResultPreview(previewOf(chunks.slice(0, count))),
      characters: chunks.reduce((sum, { content }) => sum + content.length, 0),
      texts: chunks.slice(0, count).flatMap(({ documentName, content }) => [documentName, content]),
    };
  }

  /** Shortens all passages of a result first, and then omits the last ones, which match the search least. */
  function passagesThatFit(
    most: number,
    tokens: number,
    write: (numbers: readonly number[], characters: number) => string,
  ) {
    for (let count = most; count > 0; count -= 1) {
      const numbers = Array<number>(count).fill(widestNumber);
      const least = minPassageCharacters * count;
      const characters = charactersThatFit(passageCharacters, least, tokens, (length) => write(numbers, length));
      if (characters !== null) return { count, characters };
    }
    return { count: 0, characters: 0 };
  }

  /** Halves the length of a text until the message fits into `tokens`. Null if `least` characters do not fit. */
  function charactersThatFit(most: number, least: number, tokens: number, message: (characters: number) => string) {
    for (let characters = most; characters >= least; characters = Math.floor(characters / 2)) {
      if (tokenCounter.count(message(characters)) <= tokens) return characters;
    }
    return null;
  }

  return (tool: string, output: ToolOutput, tokens: number): FormattedResult =>
    typeof output === 'string' ? formatText(tool, output, tokens) : formatPassages(output, tokens);
}

/**
 * The stored preview of a tool result names documents by id only, because some readers of the chat cannot read the
 * documents.
 */
function previewOf(chunks: readonly { documentId: string }[]): string {
  if (chunks.length === 0) return noRoom;
  const ids = new Set(chunks.map(({ documentId }) => documentId));
  return `${chunks.length} passages of ${[...ids].join(', ')}`;
}

/** Marks truncated text with `[…]`, so that the model knows that text is missing. */
export function truncateTextWithMark(text: string, characters: number): string {
  return text.length <= characters ? text : `${text.slice(0, characters).toWellFormed()} […]`;
}

function randomNonce(): string {
  return randomBytes(8).toString('hex');
}
