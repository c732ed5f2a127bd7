import { randomInt } from 'node:crypto';
import type { LlamaGrammar, Token } from 'node-llama-cpp';
import { OpenAiError } from '../openai-error.ts';
import type { PromptPart, PromptTemplate } from './chat-prompt.ts';
import type { ChatRequest, ChatResult, Tool } from './chat-request.ts';
import type { LlamaModel, Sampling } from './llama-model.ts';
import { createTextPieces } from './text-pieces.ts';
import {
  CALL_OPENING,
  callableTools,
  callSchema,
  isRepeated,
  readCall,
  recognizeCall,
  toGrammarSchema,
} from './tool-calls.ts';

/** The sampling values that Qwen recommends for its models. */
const DEFAULTS = { temperature: 0.7, topP: 0.8 };
const DEFAULT_ANSWER_TOKENS = 1_024;

export type AnswerTask = {
  llama: LlamaModel;
  toPrompt: PromptTemplate;
  request: ChatRequest;
  onText: (piece: string) => void;
  signal: AbortSignal;
};

/** Answers a chat request with text, JSON or one tool call. Parallel tool calls are not supported. */
export async function writeAnswer(task: AnswerTask): Promise<ChatResult> {
  const { llama, toPrompt, request, signal } = task;
  const usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };

  async function open(tools: readonly Tool[]): Promise<Token[]> {
    const prompt = tokenizePrompt(llama, toPrompt(request.messages, tools));
    usage.promptTokens = prompt.length;
    usage.cachedTokens = (await llama.read(prompt, signal)).cachedTokens;
    return prompt;
  }

  async function* write(prompt: readonly Token[], grammar: LlamaGrammar | null) {
    for await (const next of llama.write(prompt, samplingOf(request, grammar, tokensLeft()), signal)) {
      usage.completionTokens += 1;
      yield next;
    }
  }

  function tokensLeft(): number {
    const room = llama.windowTokens - usage.promptTokens;
    return Math.min(request.maxTokens ?? DEFAULT_ANSWER_TOKENS, room) - usage.completionTokens;
  }

  const end = (): ChatResult => ({ finishReason: tokensLeft() > 0 ? 'stop' : 'length', toolCall: null, usage });

  async function writeText(): Promise<ChatResult> {
    const grammar = await grammarOf(llama, request.format);
    const pieces = createTextPieces(request.stops, task.onText);
    let written = '';
    for await (const { text } of write(await open([]), grammar)) {
      written += text;
      if (pieces.push(text)) return { ...end(), finishReason: 'stop' };
      // After a complete object the grammar still allows white space, of which models generate much.
      if (grammar && isJsonObject(written)) break;
    }
    pieces.end();
    return end();
  }

  /** Generates text. If the model begins a tool call, the call is generated again under a grammar. */
  async function writeTextOrCall(tools: readonly Tool[]): Promise<ChatResult> {
    const prompt = await open(tools);
    const pieces = createTextPieces(request.stops, task.onText);
    const before: Token[] = [];
    let text = '';
    let heldBack = '';
    for await (const next of write(prompt, null)) {
      text += next.text;
      heldBack += next.text;
      const recognized = recognizeCall(text, tools);
      if (recognized.kind === 'nonsense') return writeText();
      if (recognized.kind === 'call') return writeCall(tools, [...prompt, ...(recognized.text === '' ? [] : before)]);
      before.push(next.token);
      if (recognized.kind === 'unclear') continue;
      if (pieces.push(heldBack)) return { ...end(), finishReason: 'stop' };
      heldBack = '';
    }
    pieces.push(heldBack);
    pieces.end();
    return end();
  }

  async function writeCall(tools: readonly Tool[], before: readonly Token[]): Promise<ChatResult> {
    const grammar = await compile(() => llama.grammarOf(callSchema(tools)), 'tools');
    const opened = [...before, ...llama.tokenize(CALL_OPENING, { withMarks: true })];
    await llama.read(opened, signal);
    let json = '';
    for await (const { text } of write(opened, grammar)) {
      json += text;
      if (isJsonObject(json)) break;
    }
    const toolCall = readCall(json);
    if (toolCall === null) return { finishReason: 'length', toolCall, usage };
    if (request.toolChoice === 'auto' && isRepeated(toolCall, request.messages)) return writeText();
    return { finishReason: 'tool_calls', toolCall, usage };
  }

  const tools = callableTools(request);
  if (tools.length === 0) return writeText();
  return request.toolChoice === 'auto' ? writeTextOrCall(tools) : writeCall(tools, await open(tools));
}

function samplingOf(request: ChatRequest, grammar: LlamaGrammar | null, maxTokens: number): Sampling {
  return {
    temperature: request.temperature ?? DEFAULTS.temperature,
    topP: request.topP ?? DEFAULTS.topP,
    seed: request.seed ?? randomInt(2 ** 31),
    grammar,
    maxTokens,
  };
}

function isJsonObject(text: string): boolean {
  if (!text.trimEnd().endsWith('}')) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Tokenizes a prompt.
 * @throws OpenAiError 400 when the prompt leaves no room for an answer
 */
export function tokenizePrompt(llama: LlamaModel, parts: readonly PromptPart[]): Token[] {
  const tokens = parts.flatMap(({ text, withMarks }) => llama.tokenize(text, { withMarks }));
  if (tokens.length < llama.windowTokens) return tokens;
  const numbers = `The messages have ${tokens.length} tokens; the limit with the answer is ${llama.windowTokens}.`;
  throw new OpenAiError(400, numbers, { code: 'context_length_exceeded', param: 'messages' });
}

async function grammarOf(llama: LlamaModel, format: ChatRequest['format']): Promise<LlamaGrammar | null> {
  if (format === null) return null;
  if (format === 'object') return llama.anyObject();
  return compile(() => llama.grammarOf(toGrammarSchema(format.schema)), 'response_format');
}

async function compile(make: () => Promise<LlamaGrammar>, param: string): Promise<LlamaGrammar> {
  try {
    return await make();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new OpenAiError(400, `The JSON schema is not supported: ${reason}`, {
      code: 'unsupported_response_format',
      param,
    });
  }
}
