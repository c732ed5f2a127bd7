import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import { functionNameOfTool, type Tool, thirdPartyTextTools, webSearchToolId } from '#src/domain/agents/tools.ts';
import { removeInvisibleCharacters, toolResultPreview } from '#src/domain/chat/context-blocks.ts';
import { extractUrls } from '#src/domain/chat/urls.ts';
import { canonicalJson } from '#src/domain/text/canonical-json.ts';
import { type TokenCounter, truncateToTokens } from '#src/domain/text/tokens.ts';
import { AppError, appError } from '#src/errors.ts';
import type {
  ChatModel,
  ModelMessage,
  ModelReply,
  ModelRequest,
  ModelTool,
  ModelToolCall,
  ModelUsage,
} from '#src/ports/models.ts';
import type { ToolCallContext } from '#src/ports/tools.ts';
import type { ToolCallRecord } from './chat.model.ts';
import type { ReplyCitations } from './citations.ts';
import {
  argumentCharacters,
  createToolResultFormatter,
  cutTo,
  normalized,
  partsOf,
  type RoundTool,
  readArguments,
  replayableArguments,
  type ToolArguments,
  type ToolOutput,
  textsIn,
} from './tools.ts';

const maxToolCalls = 6;
/**
 * Tool calls of one turn that get a result. The last one is refused, and tells the model how many further calls were
 * dropped.
 */
const callsPerTurn = maxToolCalls + 2;
/** Shorter text before a tool call only announces the call; longer text is part of the answer. */
const announcementCharacters = 160;
/** With fewer tokens left no tool is offered: its result would not fit. */
const minTokensForCalls = 200;
/** A tool result that is cut to fewer tokens is useless. */
const minResultTokens = 150;
const defaultTimeoutMs = 15_000;
/** Shorter parts of arguments are common words, which are no sign of a copied text. */
const minCheckedCharacters = 8;

const answerNow = 'No function can be called any more. Answer now, in words, with what there is.';

/** `truncatedBy` is that of the last turn, which writes the answer. */
export type LoopReply = Pick<ModelReply, 'usage' | 'model' | 'truncatedBy'> & { toolCalls: ToolCallRecord[] };

export type ToolLoop = ReturnType<typeof createToolLoop>;

export type ToolRound = {
  /** The same id for each attempt to answer the round. */
  id: string;
  tools: readonly RoundTool[];
  context: Omit<ToolCallContext, 'signal' | 'callKey'>;
  /** Texts in the prompt that other users or services wrote. */
  untrustedTexts: readonly string[];
  earlierReplies: readonly string[];
  citations: Pick<ReplyCitations, 'add'>;
  /** Allows the reply to contain these addresses. */
  allowAddresses(addresses: readonly string[]): void;
  /** Records a change that a tool made outside of the service, even if the answer fails afterwards. */
  recordAction(tool: Tool, callKey: string): Promise<void>;
  signal: AbortSignal;
};

type CallerDeps = { tokenCounter: TokenCounter; logger: Pick<Logger, 'info' | 'warn'>; timeoutMs?: number };

export function toModelTool({ tool }: RoundTool): ModelTool {
  return { name: functionNameOfTool(tool.id), description: tool.description, parameters: tool.parameters };
}

/** Asks a model for an answer, and calls the tools that it asks for in between. */
export function createToolLoop(deps: { chatModel: Pick<ChatModel, 'stream'> } & Omit<CallerDeps, 'logger'>) {
  const { chatModel, tokenCounter } = deps;

  /**
   * After six tool calls, or when no result would fit any more, the model is asked to answer. If it only calls tools
   * then, it is asked once more, and after that this throws `model_response_invalid`. Text before a call is not part of
   * the answer, unless it is so long that it was already sent.
   * @param round null without tools
   * @param toolTokens for calls and their results
   * @returns the usage of all turns together
   */
  return async (
    request: Omit<ModelRequest, 'tools' | 'mayCall'>,
    { round, toolTokens, logger }: { round: ToolRound | null; toolTokens: number } & Pick<CallerDeps, 'logger'>,
    onText: (text: string) => void,
  ): Promise<LoopReply> => {
    if (round === null || round.tools.length === 0) {
      return { ...(await chatModel.stream(request, onText)), toolCalls: [] };
    }
    const tools = round.tools.map(toModelTool);
    const caller = createToolCaller(round, { ...deps, logger });
    const text = createTurnText(onText);
    const messages = [...request.messages];
    const usage: ModelUsage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };
    let tokensLeft = toolTokens;
    let wasToldToAnswer = false;
    for (let turn = 1; ; turn += 1) {
      const mayCall = caller.callsLeft() > 0 && tokensLeft >= minTokensForCalls;
      const output = text.startTurn(mayCall ? announcementCharacters : 0);
      const reply = await chatModel.stream({ ...request, messages, tools, mayCall }, output.write);
      addUsage(usage, reply.usage);
      if (reply.toolCalls === undefined) {
        output.end();
        return { ...reply, usage, toolCalls: caller.records() };
      }
      if (!mayCall) {
        if (wasToldToAnswer) {
          throw appError('model_response_invalid', { detail: 'The chat model calls tools without end.' });
        }
        messages.push({ role: 'system', content: answerNow });
        wasToldToAnswer = true;
        continue;
      }
      const { calls, leftOut, message } = callsOf(reply, turn, tokensLeft);
      tokensLeft -= tokenCounter.count(JSON.stringify(message));
      const results = await caller.call(calls, Math.max(0, tokensLeft), leftOut);
      messages.push(message);
      calls.forEach(({ id }, index) => {
        const content = results[index] ?? '';
        tokensLeft -= tokenCounter.count(content);
        messages.push({ role: 'tool', toolCallId: id, content });
      });
    }
  };

  /**
   * The tool calls of a turn, and the assistant message that holds them in the conversation. Arguments, which can be of
   * any length, are left out of the message if they would take the room of the results.
   */
  function callsOf({ text, toolCalls = [] }: ModelReply, turn: number, tokens: number) {
    // Ids of tool calls have nine letters and digits: the strictest providers accept no others.
    const calls = toolCalls
      .slice(0, callsPerTurn)
      .map((call, index) => ({ ...call, id: `call${String(turn * 100 + index + 1).padStart(5, '0')}` }));
    const most = Math.floor(tokens / 2);
    const messageWith = (hasArguments: boolean): ModelMessage => ({
      role: 'assistant',
      content: Number.isFinite(tokens) ? truncateToTokens(text, Math.floor(most / 2), tokenCounter) : text,
      toolCalls: calls.map(({ id, name, arguments: json }) => ({
        id,
        name: /^[\w-]{1,64}$/.test(name) ? name : 'unknown',
        arguments: hasArguments ? replayableArguments(json) : '{}',
      })),
    });
    const whole = messageWith(true);
    const message = tokenCounter.count(JSON.stringify(whole)) <= most ? whole : messageWith(false);
    return { calls, leftOut: toolCalls.length - calls.length, message };
  }
}

/** Passes the text of several turns on, each turn as a paragraph of its own. */
function createTurnText(onText: (text: string) => void) {
  let hasText = false;

  return {
    /** Holds back the first characters of a turn. They are dropped if the turn has no more text and no `end`. */
    startTurn(heldCharacters: number) {
      let held: string | null = '';
      let isParagraph = hasText;
      const pass = (text: string): void => {
        onText(isParagraph ? `\n\n${text}` : text);
        isParagraph = false;
        hasText = true;
      };
      const release = (): void => {
        if (held) pass(held);
        held = null;
      };
      return {
        write(text: string): void {
          if (held === null) pass(text);
          else held += text;
          if (held !== null && held.length > heldCharacters) release();
        },
        end: release,
      };
    },
  };
}

function addUsage(sum: ModelUsage, more: ModelUsage): void {
  sum.inputTokens += more.inputTokens;
  sum.cachedInputTokens += more.cachedInputTokens;
  sum.completionTokens += more.completionTokens;
}

type NamedCall = ModelToolCall & { id: string };
/** `number` counts the tool calls of the round; `leftOut` is how many calls after this one were dropped. */
type CallPosition = { number: number; hasRoom: boolean; leftOut: number };
type AdmittedCall = { offered: RoundTool; args: ToolArguments; key: string };
type EndedCall = { output: ToolOutput; record: Omit<ToolCallRecord, 'resultPreview' | 'resultCharacters'> };

/**
 * Calls the tools of one round. A failed call is reported to the model and ends neither the other calls nor the round;
 * only the round's own signal does.
 */
export function createToolCaller(round: ToolRound, deps: CallerDeps) {
  const { tokenCounter, logger, timeoutMs = defaultTimeoutMs } = deps;
  const formatResult = createToolResultFormatter({ tokenCounter, citations: round.citations });
  const byName = new Map(round.tools.map((offered) => [functionNameOfTool(offered.tool.id), offered]));
  const writtenByPeople = round.context.trustedTexts;
  const trustedTexts = writtenByPeople.map(normalized);
  const earlierReplies = round.earlierReplies.map(normalized);
  // Texts that the model has read include earlier replies, which may quote a document that is not in this prompt.
  const readTexts = [...round.untrustedTexts.map(normalized), ...earlierReplies];
  const foundBySearch: string[] = [];
  const sentTexts: string[] = [];
  const calledKeys = new Set<string>();
  const records: ToolCallRecord[] = [];
  let count = 0;

  /** Throws the error with which a tool call is refused. */
  function admit(call: ModelToolCall, { number, hasRoom, leftOut }: CallPosition): AdmittedCall {
    if (number > maxToolCalls || !hasRoom) {
      const rest = leftOut > 0 ? `Calls left out: ${leftOut}. ` : '';
      throw appError('tool_limit_reached', { detail: `${rest}Answer with what there is.` });
    }
    const offered = byName.get(call.name);
    if (offered === undefined) {
      throw appError('unknown_tool', { detail: `The functions are: ${[...byName.keys()].join(', ')}.` });
    }
    const args = readArguments(offered.tool, call.arguments);
    const key = `${call.name} ${canonicalJson(args)}`;
    if (calledKeys.has(key)) {
      throw appError('tool_call_repeated', { detail: 'This was called before with the same arguments.' });
    }
    calledKeys.add(key);
    if (needsTrustedArguments(offered.tool)) requireTrustedArguments(offered.tool, args);
    sentTexts.push(...textsIn(args).map(normalized));
    return { offered, args, key };
  }

  /**
   * Refuses arguments that were copied from a document or another tool and stand in no text that a person wrote. Texts
   * of earlier replies are accepted, since the user has read them, but not in a URL that is requested.
   */
  function requireTrustedArguments({ id }: Tool, args: ToolArguments): void {
    const accepted = id === 'http.request' ? trustedTexts : [...trustedTexts, ...earlierReplies];
    const copied = textsIn(args)
      .flatMap(partsOf)
      .map(normalized)
      .find(
        (part) =>
          part.length >= minCheckedCharacters &&
          readTexts.some((text) => text.includes(part)) &&
          !accepted.some((text) => text.includes(part)),
      );
    if (copied === undefined) return;
    const detail = `"${copied.slice(0, 80)}" stands only in what was read. Ask the user to write it out.`;
    throw appError('untrusted_argument', { detail });
  }

  async function run({ offered: { tool, run }, args, key }: AdmittedCall): Promise<ToolOutput> {
    round.signal.throwIfAborted();
    const timeout = AbortSignal.timeout(timeoutMs);
    const signal = AbortSignal.any([round.signal, timeout]);
    const allowedTexts = tool.id === 'web.fetch' ? [...writtenByPeople, ...foundBySearch] : writtenByPeople;
    const callKey = createHash('sha256').update(`${round.id} ${key}`).digest('hex').slice(0, 40);
    const aborted = Promise.withResolvers<never>();
    const onAbort = () => aborted.reject(signal.reason);
    signal.addEventListener('abort', onAbort);
    const running = run(args, { ...round.context, trustedTexts: allowedTexts, callKey, signal }).then(
      async (output) => {
        if (hasSideEffects(tool)) await round.recordAction(tool, callKey);
        return output;
      },
    );
    try {
      // A tool that ignores its abort signal is not waited for.
      return await Promise.race([running, aborted.promise]);
    } catch (error) {
      if (!timeout.aborted) throw error;
      throw appError('tool_timeout', { detail: `It took longer than ${timeoutMs / 1_000} seconds.`, cause: error });
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Throws only when the round's signal is aborted. */
  async function make(call: NamedCall, position: CallPosition): Promise<EndedCall> {
    const startedAt = new Date().toISOString();
    const start = performance.now();
    const tool = byName.get(call.name)?.tool.id ?? (toolResultPreview(call.name).slice(0, 100) || 'unknown');
    let admitted: AdmittedCall | null = null;
    const ended = (output: ToolOutput, failure: AppError | null): EndedCall => {
      const durationMs = Math.round(performance.now() - start);
      const [status, errorCode] = [statusOf(failure, admitted !== null), failure?.code ?? null];
      const args = admitted === null ? cutTo(call.arguments, argumentCharacters) : { ...admitted.args };
      const cause = failure?.cause;
      const fields = { tool, status, errorCode, durationMs, ...(cause !== undefined && { err: cause }) };
      // Invalid arguments are the model's mistake and not logged as a failure of the tool.
      if (status === 'error' && errorCode !== 'tool_arguments_invalid') logger.warn(fields, 'a call of a tool failed');
      else logger.info(fields, 'a tool was called');
      return { output, record: { id: call.id, tool, arguments: args, status, errorCode, startedAt, durationMs } };
    };
    try {
      admitted = admit(call, position);
      return ended(await run(admitted), null);
    } catch (error) {
      round.signal.throwIfAborted();
      const failure = error instanceof AppError ? error : appError('tool_failed', { cause: error });
      const mayRepeat =
        failure.errorClass === 'transient' && admitted !== null && !hasSideEffects(admitted.offered.tool);
      if (admitted !== null && mayRepeat) calledKeys.delete(admitted.key);
      return ended(`${failure.title} (${failure.code}). ${failure.message}`, failure);
    }
  }

  /** Records the texts of a tool's result as read by the model, and allows the addresses in them. */
  function noteRead(tool: string, texts: readonly string[]): void {
    readTexts.push(...texts.map(normalized));
    if (tool === webSearchToolId) foundBySearch.push(...texts.flatMap(resultUrlsIn));
    if (!thirdPartyTextTools.has(tool)) return;
    // An address that the model sent to the tool may be its invention, even if it comes back in the result.
    const wasSent = (address: string) => sentTexts.some((sent) => sent.includes(normalized(address)));
    const addresses = texts.flatMap((text) => extractUrls(removeInvisibleCharacters(text)));
    round.allowAddresses(addresses.filter((address) => !wasSent(address)));
  }

  return {
    callsLeft: () => Math.max(0, maxToolCalls - count),

    /**
     * Makes the tool calls of one turn in parallel.
     * @param tokens for all results together
     * @param leftOut how many further calls the turn had and were dropped; the result of the last call tells the model
     * so, instead of a result of its tool
     * @returns the result of each call for the model, in their order
     */
    async call(calls: readonly NamedCall[], tokens: number, leftOut = 0): Promise<string[]> {
      const roomFor = Math.floor(tokens / minResultTokens);
      const positionOf = (index: number): CallPosition => {
        return { number: ++count, hasRoom: index < roomFor, leftOut: index === calls.length - 1 ? leftOut : 0 };
      };
      const ended = await Promise.all(calls.map((call, index) => make(call, positionOf(index))));
      let left = tokens;
      // Results are formatted in sequence: passages are numbered in the order of the calls.
      return ended.map(({ output, record }, index) => {
        const name = /^[a-z._]+$/.test(record.tool) ? record.tool : 'unknown';
        const share = Math.floor(left / (ended.length - index));
        const { message, preview, characters, texts } = formatResult(name, output, share);
        left -= tokenCounter.count(message);
        if (record.status === 'ok') noteRead(record.tool, texts);
        records.push({ ...record, resultPreview: preview, resultCharacters: characters });
        return message;
      });
    },

    records: (): ToolCallRecord[] => [...records],
  };
}

function statusOf(failure: AppError | null, wasAdmitted: boolean): ToolCallRecord['status'] {
  if (failure === null) return 'ok';
  if (failure.code === 'tool_timeout') return 'timeout';
  // A tool may check its address itself and refuse: then no server was called either.
  return wasAdmitted && failure.code !== 'untrusted_argument' ? 'error' : 'refused';
}

/** The addresses of search results, which stand on lines of their own, without those inside the extracts. */
function resultUrlsIn(text: string): string[] {
  return text.split('\n').filter((line) => /^https?:\/\/\S+$/.test(line));
}

function hasSideEffects({ actions }: Tool): boolean {
  return actions.some(({ crudl }) => crudl !== 'read' && crudl !== 'list');
}

/** `http.request` sends arguments of the model to an address of the model. */
function needsTrustedArguments(tool: Tool): boolean {
  return tool.id === 'http.request' || hasSideEffects(tool);
}
