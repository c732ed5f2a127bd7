import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { allTools, type Tool } from '#src/domain/agents/tools.ts';
import {
  containsModelInstructions,
  foundPassagesMessage,
  removeInvisibleCharacters,
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

/** Passages that an answer can cite. `note` describes the first of them to the model, by their numbers. */
export type FoundPassages = { chunks: RetrievedChunk[]; note: (numbers: readonly number[]) => string };

export type ToolOutput = string | FoundPassages;

export type RoundTool = {
  tool: Tool;
  run(args: Readonly<Record<string, unknown>>, context: ToolCallContext): Promise<ToolOutput>;
};

export type ToolChooser = ReturnType<typeof createToolChooser>;

/**
 * Chooses the tools of a round: those of the agent that the organization can use now. Tools over documents are only
 * available in a chat that uses documents.
 */
export function createToolChooser(deps: {
  toolCatalog: Pick<ToolCatalogService, 'usableToolIds'>;
  /** Executors by tool id, without the tools over documents, which are defined here. */
  executors: ReadonlyMap<string, ToolExecutor>;
  retrieval: Pick<RetrievalService, 'retrieve' | 'readPart'>;
  models: Pick<ModelsService, 'contextBudget'>;
}) {
  const { toolCatalog, executors, retrieval, models } = deps;

  function knowledgeTools(chat: Chat, { chatModel }: ChatAgent): Map<string, RoundTool['run']> {
    const settings = retrievalSettings(chat);
    const { includeDocumentIds: include, excludeDocumentIds: exclude } = settings;
    return new Map<string, RoundTool['run']>([
      [
        'knowledge.search',
        async ({ query }, { actor, signal }) => {
          const contextTokens = await models.contextBudget(chatModel);
          const request = { query: String(query), ...settings, contextTokens, signal };
          const { chunks } = await retrieval.retrieve(actor, request);
          if (chunks.length === 0) return 'No passage of the documents fits this search.';
          return { chunks, note: (numbers) => documentsOf(chunks, numbers) };
        },
      ],
      [
        'knowledge.read',
        async ({ document_id, part = 1 }, { actor }) => {
          // Models may write a document id in capitals, which must not bypass the chat's lists of documents.
          const documentId = String(document_id).toLowerCase();
          const isLeftOut = include?.includes(documentId) === false || exclude?.includes(documentId) === true;
          if (isLeftOut) throw appError('document_not_found');
          const { chunks, parts } = await retrieval.readPart(actor, documentId, Number(part));
          if (chunks.length === 0) throw appError('tool_arguments_invalid', { detail: `It has ${parts} parts.` });
          return { chunks, note: () => `This is part ${part} of ${parts} of document ${documentId}.` };
        },
      ],
    ]);
  }

  return async (actor: RequestActor, chat: Chat, agent: ChatAgent): Promise<RoundTool[]> => {
    if (agent.enabledTools.length === 0) return [];
    const usable = await toolCatalog.usableToolIds(actor.orgId);
    const known = new Map<string, RoundTool['run']>([
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

/** Longer arguments than any tool takes are not parsed. */
export const argumentCharacters = 4_000;

const anyArguments = z.record(z.string(), z.unknown());
const schemas = new WeakMap<Tool, z.ZodType>();

function schemaOf(tool: Tool): z.ZodType {
  const schema = schemas.get(tool) ?? z.fromJSONSchema(tool.parameters);
  schemas.set(tool, schema);
  return schema;
}

/** Parses the arguments that a model wrote, by the tool's schema. Throws `tool_arguments_invalid`. */
export function readArguments(tool: Tool, json: string): ToolArguments {
  const parsed = schemaOf(tool).safeParse(anyArguments.safeParse(parseJson(json)).data);
  if (parsed.success) return storable(anyArguments.parse(parsed.data));
  const issues = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'arguments'}: ${message}`);
  throw appError('tool_arguments_invalid', { detail: issues.slice(0, 5).join('; ') });
}

/** Arguments for the conversation that goes back to the model: providers reject any that are not a JSON object. */
export function replayableArguments(json: string): string {
  return anyArguments.safeParse(parseJson(json)).success ? json || '{}' : '{}';
}

/** Undefined if the text is no JSON, or too long. */
function parseJson(json: string): unknown {
  if (json.length > argumentCharacters) return undefined;
  try {
    return JSON.parse(json || '{}');
  } catch {
    return undefined;
  }
}

/** JSON escapes can encode characters, such as NUL, that Postgres does not store. */
function storable(args: ToolArguments): ToolArguments {
  const text = JSON.stringify(args, (_key, part: unknown) => (typeof part === 'string' ? toPostgresText(part) : part));
  return anyArguments.parse(JSON.parse(text));
}

export function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/**
 * A text, and the parts of it if it is a URL, encoded and decoded: each segment of the path, each query parameter, and
 * the path with each parameter alone.
 */
export function partsOf(text: string): string[] {
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

export function normalized(text: string): string {
  return removeInvisibleCharacters(text).toLowerCase().replace(/\s+/g, ' ').trim();
}

/** Limit of one text result of a tool: longer ones distract a model. */
const resultCharacters = 8_000;
/** Limit of all passages of one tool result: as much as one search finds. */
const passageCharacters = 14_000;
/** A passage that is cut shorter is useless as evidence. */
const minPassageCharacters = 200;
/** Stands for passage numbers while a result is fitted: no number of an answer takes more tokens. */
const widestNumber = 999;
const noRoom = 'There is no room for what the tool gave: answer with what there is.';

type FormattedResult = {
  message: string;
  /** What the stored record shows to people. */
  preview: string;
  /** Length of the tool's whole output, also where the model gets less. */
  characters: number;
  /** The untrusted texts in `message`. */
  texts: string[];
};

/** Formats the output of a tool for the model, cut to the given tokens; replaces it by `noRoom` if nothing fits. */
export function createToolResultFormatter(deps: {
  tokenCounter: TokenCounter;
  citations: Pick<ReplyCitations, 'add'>;
}) {
  const { tokenCounter, citations } = deps;

  function formatText(tool: string, output: string, tokens: number): FormattedResult {
    // A tool's output is cut before it is cleaned, which takes long for a whole large output.
    const text = cutTo(toPostgresText(output.slice(0, resultCharacters + 1)), resultCharacters);
    const nonce = randomNonce();
    const write = (characters: number) => toolResultMessage(tool, cutTo(text, characters), nonce);
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
        const text = cutTo(content, Math.floor(characters / numbers.length));
        return { ...passage, text, number: numbers[index] ?? 0 };
      });
      return foundPassagesMessage(written, note(numbers), nonce);
    };
    const { count, characters } = passagesThatFit(chunks.length, tokens, write);
    // Passages that are left out get no citation number.
    const numbers = citations.add(chunks.slice(0, count));
    return {
      message: count === 0 ? noRoom : write(numbers, characters),
      preview: toolResultPreview(previewOf(chunks.slice(0, count))),
      characters: chunks.reduce((sum, { content }) => sum + content.length, 0),
      texts: chunks.slice(0, count).flatMap(({ documentName, content }) => [documentName, content]),
    };
  }

  /** Cuts all passages first, and then leaves out the last ones, which fit the search least. */
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

  /** Halves the characters of a text until the message fits; null if it does not fit with the least. */
  function charactersThatFit(most: number, least: number, tokens: number, message: (characters: number) => string) {
    for (let characters = most; characters >= least; characters = Math.floor(characters / 2)) {
      if (tokenCounter.count(message(characters)) <= tokens) return characters;
    }
    return null;
  }

  return (tool: string, output: ToolOutput, tokens: number): FormattedResult =>
    typeof output === 'string' ? formatText(tool, output, tokens) : formatPassages(output, tokens);
}

/** Names documents by id only, since some readers of the chat may not read their names and texts. */
function previewOf(chunks: readonly { documentId: string }[]): string {
  if (chunks.length === 0) return noRoom;
  const ids = new Set(chunks.map(({ documentId }) => documentId));
  return `${chunks.length} passages of ${[...ids].join(', ')}`;
}

/** Marks the cut with `[…]`, so that the model knows that text is missing. */
export function cutTo(text: string, characters: number): string {
  return text.length <= characters ? text : `${text.slice(0, characters).toWellFormed()} […]`;
}

function randomNonce(): string {
  return randomBytes(8).toString('hex');
}
