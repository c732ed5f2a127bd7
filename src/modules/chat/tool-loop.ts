import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import {
  functionNameOfTool,
  type Tool,
  type ToolCallRecord,
  toolsReturningThirdPartyText,
  webSearchToolId,
} from '#src/domain/agents/tools.ts';
import { removeInvisibleCharacters, type Spotlight, toolResultPreview } from '#src/domain/chat/context-blocks.ts';
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
import type { ReplyCitations } from './citations.ts';
import {
  collectStrings,
  createToolResultFormatter,
  maxToolArgumentCharacters,
  normalizeTextForComparison,
  parseToolArguments,
  type RunnableTool,
  type ToolArguments,
  type ToolOutput,
  toolArgumentsForModel,
  truncateTextWithMark,
  urlAndItsDecodedParts,
} from './tools.ts';

const maxToolCalls = 6;
/**
 * Maximum tool calls of one model turn that get a result. The last one is refused with an error that tells the model
 * how many calls were dropped.
 */
const callsPerTurn = maxToolCalls + 2;
/**
 * Maximum length of a text before a tool call that only announces the call and is dropped; a longer text is part of the
 * answer.
 */
const announcementCharacters = 160;
const minTokensForCalls = 200;
const minResultTokens = 150;
const defaultTimeoutMs = 15_000;
/**
 * Minimum length of a part of an argument for the comparison with untrusted texts: shorter parts are common words and
 * no sign of copied text.
 */
const minCheckedCharacters = 8;

const answerNow = 'No function can be called any more. Answer now, in words, with what there is.';

/** `truncatedBy` says why the last model turn, which writes the answer, was cut off. */
export type ToolCallLoopReply = Pick<ModelReply, 'usage' | 'model' | 'truncatedBy'> & { toolCalls: ToolCallRecord[] };

export type ToolCallLoop = ReturnType<typeof createToolCallLoop>;

export type ToolCallLoopRound = {
  /**
   * Identifies the round. It is equal for all attempts to answer the round, so that a repeated tool call gets the same
   * `callKey`.
   */
  id: string;
  tools: readonly RunnableTool[];
  context: Omit<ToolCallContext, 'signal' | 'callKey'>;
  /** Texts in the prompt that other users or services wrote, such as documents. */
  untrustedTexts: readonly string[];
  earlierReplies: readonly string[];
  citations: Pick<ReplyCitations, 'add'>;
  allowAddresses(addresses: readonly string[]): void;
  /** Audits a change that a tool made in another system, even if the answer fails afterwards. */
  recordAction(tool: Tool, callKey: string): Promise<void>;
  signal: AbortSignal;
};

type CallerDeps = {
  tokenCounter: TokenCounter;
  spotlight: Spotlight;
  logger: Pick<Logger, 'info' | 'warn'>;
  timeoutMs?: number;
};

export function toModelTool({ tool }: RunnableTool): ModelTool {
  return { name: functionNameOfTool(tool.id), description: tool.description, parameters: tool.parameters };
}

export function createToolCallLoop(deps: { chatModel: Pick<ChatModel, 'stream'> } & Omit<CallerDeps, 'logger'>) {
  const { chatModel, tokenCounter } = deps;

  /**
   * Calls the model and runs the tools that it requests, until it answers. After six tool calls, or when no further
   * result would fit, the model may no longer call tools; it is told once to answer, and after that this throws
   * `model_response_invalid`. Text before a tool call is dropped, unless it was so long that it has already been sent.
   * @param round null if no tools are offered
   * @param toolTokens token budget for tool calls and their results
   * @returns the usage summed over all turns
   */
  return async (
    request: Omit<ModelRequest, 'tools' | 'mayCall'>,
    { round, toolTokens, logger }: { round: ToolCallLoopRound | null; toolTokens: number } & Pick<CallerDeps, 'logger'>,
    onText: (text: string) => void,
  ): Promise<ToolCallLoopReply> => {
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
          throw appError('model_response_invalid', {
            detail: 'The chat model kept calling tools after it was told to answer.',
          });
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
   * Returns the tool calls of a turn, and the assistant message that records them in the conversation. Omits the
   * arguments from the message if they would use up the token budget of the results.
   */
  function callsOf({ text, toolCalls = [] }: ModelReply, turn: number, tokens: number) {
    // Tool call ids have nine letters and digits, because the strictest providers accept no others.
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
        arguments: hasArguments ? toolArgumentsForModel(json) : '{}',
      })),
    });
    const whole = messageWith(true);
    const message = tokenCounter.count(JSON.stringify(whole)) <= most ? whole : messageWith(false);
    return { calls, leftOut: toolCalls.length - calls.length, message };
  }
}

function createTurnText(onText: (text: string) => void) {
  let hasText = false;

  return {
    /**
     * Buffers the first characters of a model turn, and drops them if the turn then calls a tool without more text.
     */
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
/**
 * Position of a tool call. `number` counts the tool calls of the round; `leftOut` is the number of later calls of the
 * same model turn that were dropped.
 */
type CallPosition = { number: number; hasRoom: boolean; leftOut: number };
type AdmittedCall = { offered: RunnableTool; args: ToolArguments; key: string };
type EndedCall = { output: ToolOutput; record: Omit<ToolCallRecord, 'resultPreview' | 'resultCharacters'> };

/**
 * Runs a round's tool calls. A failed call is reported to the model and does not end the round; an abort of the round's
 * signal does.
 */
export function createToolCaller(round: ToolCallLoopRound, deps: CallerDeps) {
  const { tokenCounter, spotlight, logger, timeoutMs = defaultTimeoutMs } = deps;
  const formatResult = createToolResultFormatter({ tokenCounter, spotlight, citations: round.citations });
  const byName = new Map(round.tools.map((offered) => [functionNameOfTool(offered.tool.id), offered]));
  const writtenByPeople = round.context.trustedTexts;
  const trustedTexts = writtenByPeople.map(normalizeTextForComparison);
  const earlierReplies = round.earlierReplies.map(normalizeTextForComparison);
  // Untrusted texts that the model has read: tool arguments must not be copied from them. Includes earlier replies,
  // which may quote a document that is not in this prompt.
  const readTexts = [...round.untrustedTexts.map(normalizeTextForComparison), ...earlierReplies];
  const foundBySearch: string[] = [];
  const sentTexts: string[] = [];
  const calledKeys = new Set<string>();
  const records: ToolCallRecord[] = [];
  let count = 0;

  function admit(call: ModelToolCall, { number, hasRoom, leftOut }: CallPosition): AdmittedCall {
    if (number > maxToolCalls || !hasRoom) {
      const rest = leftOut > 0 ? `Calls left out: ${leftOut}. ` : '';
      throw appError('tool_limit_reached', { detail: `${rest}Answer with what there is.` });
    }
    const offered = byName.get(call.name);
    if (offered === undefined) {
      throw appError('unknown_tool', { detail: `The functions are: ${[...byName.keys()].join(', ')}.` });
    }
    const args = parseToolArguments(offered.tool, call.arguments);
    const key = `${call.name} ${canonicalJson(args)}`;
    if (calledKeys.has(key)) {
      throw appError('tool_call_repeated', { detail: 'This tool was already called with the same arguments.' });
    }
    calledKeys.add(key);
    if (needsTrustedArguments(offered.tool)) requireTrustedArguments(offered.tool, args);
    sentTexts.push(...collectStrings(args).map(normalizeTextForComparison));
    return { offered, args, key };
  }

  /**
   * Refuses arguments that the model copied from a document or a tool result and that occur in no text written by a
   * user. Earlier replies are trusted too, because the user has read them, but not for `http.request`.
   */
  function requireTrustedArguments({ id }: Tool, args: ToolArguments): void {
    const accepted = id === 'http.request' ? trustedTexts : [...trustedTexts, ...earlierReplies];
    const copied = collectStrings(args)
      .flatMap(urlAndItsDecodedParts)
      .map(normalizeTextForComparison)
      .find(
        (part) =>
          part.length >= minCheckedCharacters &&
          readTexts.some((text) => text.includes(part)) &&
          !accepted.some((text) => text.includes(part)),
      );
    if (copied === undefined) return;
    const detail = `"${copied.slice(0, 80)}" was copied from a text that the user did not write. Ask the user to write it out.`;
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
      // At the timeout, throws without waiting for a tool that ignores its abort signal.
      return await Promise.race([running, aborted.promise]);
    } catch (error) {
      if (!timeout.aborted) throw error;
      throw appError('tool_timeout', {
        detail: `The tool took longer than ${timeoutMs / 1_000} seconds.`,
        cause: error,
      });
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Reports a failure as the tool's result; throws only if the round's signal is aborted. */
  async function make(call: NamedCall, position: CallPosition): Promise<EndedCall> {
    const startedAt = new Date().toISOString();
    const start = performance.now();
    const tool = byName.get(call.name)?.tool.id ?? (toolResultPreview(call.name).slice(0, 100) || 'unknown');
    let admitted: AdmittedCall | null = null;
    const ended = (output: ToolOutput, failure: AppError | null): EndedCall => {
      const durationMs = Math.round(performance.now() - start);
      const [status, errorCode] = [statusOf(failure, admitted !== null), failure?.code ?? null];
      const args =
        admitted === null ? truncateTextWithMark(call.arguments, maxToolArgumentCharacters) : { ...admitted.args };
      const cause = failure?.cause;
      const fields = { tool, status, errorCode, durationMs, ...(cause !== undefined && { err: cause }) };
      // Invalid arguments are the model's mistake, so they are not logged as a failure of the tool.
      if (status === 'error' && errorCode !== 'tool_arguments_invalid') logger.warn(fields, 'a tool call failed');
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

  /** Records that the model has read the texts of a tool result, and allows their URLs in the reply. */
  function noteRead(tool: string, texts: readonly string[]): void {
    readTexts.push(...texts.map(normalizeTextForComparison));
    if (tool === webSearchToolId) foundBySearch.push(...texts.flatMap(resultUrlsIn));
    if (!toolsReturningThirdPartyText.has(tool)) return;
    // Allows no URL in the reply that the model itself sent to the tool and that the result only repeats: the model may
    // have invented it.
    const wasSent = (address: string) => sentTexts.some((sent) => sent.includes(normalizeTextForComparison(address)));
    const addresses = texts.flatMap((text) => extractUrls(removeInvisibleCharacters(text)));
    round.allowAddresses(addresses.filter((address) => !wasSent(address)));
  }

  return {
    callsLeft: () => Math.max(0, maxToolCalls - count),

    /**
     * Runs the tool calls of one model turn in parallel.
     * @param tokens token budget for all results together
     * @param leftOut number of further calls of the turn, which were dropped; the model learns it from the result of
     * the last call, which is not run
     * @returns the results for the model, in the order of `calls`
     */
    async call(calls: readonly NamedCall[], tokens: number, leftOut = 0): Promise<string[]> {
      const roomFor = Math.floor(tokens / minResultTokens);
      const positionOf = (index: number): CallPosition => {
        return { number: ++count, hasRoom: index < roomFor, leftOut: index === calls.length - 1 ? leftOut : 0 };
      };
      const ended = await Promise.all(calls.map((call, index) => make(call, positionOf(index))));
      let left = tokens;
      // Results are formatted one after the other, so that passages are numbered in the order of the calls.
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
  // A tool that refuses a URL as untrusted has not called a server, so its call counts as refused.
  return wasAdmitted && failure.code !== 'untrusted_argument' ? 'error' : 'refused';
}

/** Returns the URLs of search results, which are on lines of their own; ignores URLs inside the extracts. */
function resultUrlsIn(text: string): string[] {
  return text.split('\n').filter((line) => /^https?:\/\/\S+$/.test(line));
}

function hasSideEffects({ actions }: Tool): boolean {
  return actions.some(({ crudl }) => crudl !== 'read' && crudl !== 'list');
}

/** `http.request` also needs trusted arguments, because the model chooses both the URL and what is sent to it. */
function needsTrustedArguments(tool: Tool): boolean {
  return tool.id === 'http.request' || hasSideEffects(tool);
}
