import type { Logger } from 'pino';
import { addressesIn } from '#src/domain/addresses.ts';
import { visibleText } from '#src/domain/context-blocks.ts';
import type { TokenCounter } from '#src/domain/tokens.ts';
import { resultPreview } from '#src/domain/tool-results.ts';
import { quotingTools, searchTool } from '#src/domain/tools/built-in-tools.ts';
import { functionNameOf, type Tool } from '#src/domain/tools.ts';
import { AppError, appError, type ErrorCode } from '#src/errors.ts';
import type { ModelToolCall } from '#src/ports/chat-model.ts';
import type { ToolCallContext } from '#src/ports/tool-executor.ts';
import type { ToolCallRecord } from './chat.model.ts';
import type { Citing } from './citer.ts';
import type { RoundTool, ToolOutput } from './round-tools.ts';
import {
  argumentCharacters,
  canonical,
  readArguments,
  standsInOne,
  type ToolArguments,
  textsIn,
} from './tool-arguments.ts';
import { createToolTeller, cutTo } from './tool-teller.ts';

/** Of one answer. */
export const maxToolCalls = 6;
/** Somebody waits for the answer. */
const defaultTimeoutMs = 15_000;
/** Shorter texts are words like others, which may stand anywhere. */
const tellingCharacters = 8;

/** The round that tools are called in. */
export type ToolRound = {
  tools: readonly RoundTool[];
  context: Omit<ToolCallContext, 'signal'>;
  /** What the model has read that no person wrote for it. */
  untrustedTexts: readonly string[];
  /** Earlier answers of the chat. */
  seenTexts: readonly string[];
  /** Numbers the passages that tools find. */
  citing: Pick<Citing, 'add'>;
  /** Told of the addresses that the reply may name from now on. */
  know(addresses: readonly string[]): void;
  signal: AbortSignal;
};

export type CallerDeps = { tokenCounter: TokenCounter; logger: Pick<Logger, 'info' | 'warn'>; timeoutMs?: number };

type NamedCall = ModelToolCall & { id: string };
type EndedCall = { output: ToolOutput; record: Omit<ToolCallRecord, 'resultPreview' | 'resultCharacters'> };

/** For these a call is not made at all. */
const refusals: ReadonlySet<ErrorCode> = new Set([
  'unknown_tool',
  'tool_arguments_invalid',
  'tool_call_repeated',
  'tool_limit_reached',
  'untrusted_argument',
]);

/**
 * Makes the calls of one round. Whatever goes wrong in one is told to the model, and ends neither the others nor the
 * round; only the round's own signal does.
 */
export function createToolCaller(round: ToolRound, deps: CallerDeps) {
  const { logger, timeoutMs = defaultTimeoutMs } = deps;
  const tell = createToolTeller({ ...deps, citing: round.citing });
  const byName = new Map(round.tools.map((offered) => [functionNameOf(offered.tool.id), offered]));
  const people = round.context.trustedTexts;
  const readTexts = [...round.untrustedTexts];
  const foundBySearch: string[] = [];
  const sentTexts: string[] = [];
  const made = new Set<string>();
  const records: ToolCallRecord[] = [];
  let count = 0;

  /** Throws what the call is refused for. */
  function admit(call: ModelToolCall, place: number): { offered: RoundTool; args: ToolArguments } {
    if (place > maxToolCalls) throw appError('tool_limit_reached', { detail: 'Answer with what there is.' });
    const offered = byName.get(call.name);
    if (offered === undefined) {
      throw appError('unknown_tool', { detail: `The functions are: ${[...byName.keys()].join(', ')}.` });
    }
    const args = readArguments(offered.tool, call.arguments);
    const key = `${call.name} ${canonical(args)}`;
    if (made.has(key)) {
      throw appError('tool_call_repeated', { detail: 'This was called before with the same arguments.' });
    }
    made.add(key);
    if (reachesOut(offered.tool)) requireOwnWords(offered.tool, args);
    sentTexts.push(...textsIn(args));
    return { offered, args };
  }

  /**
   * What stands in a document, and in nothing that a person wrote, is sent nowhere and changes nothing. What an earlier
   * answer proposed may be done, as the user has read it, but no address of it is asked.
   */
  function requireOwnWords({ id }: Tool, args: ToolArguments): void {
    const spoken = id === 'http.request' ? people : [...people, ...round.seenTexts];
    const borrowed = textsIn(args).find(
      (text) => text.trim().length >= tellingCharacters && standsInOne(text, readTexts) && !standsInOne(text, spoken),
    );
    if (borrowed === undefined) return;
    const detail = `"${borrowed.slice(0, 80)}" stands only in what was read. Ask the user to write it out.`;
    throw appError('untrusted_argument', { detail });
  }

  async function run({ tool, run }: RoundTool, args: ToolArguments): Promise<ToolOutput> {
    round.signal.throwIfAborted();
    const time = AbortSignal.timeout(timeoutMs);
    const signal = AbortSignal.any([round.signal, time]);
    const trustedTexts = tool.id === 'web.fetch' ? [...people, ...foundBySearch] : people;
    const over = Promise.withResolvers<never>();
    const leave = () => over.reject(signal.reason);
    signal.addEventListener('abort', leave);
    try {
      // A tool that does not listen is left behind.
      return await Promise.race([run(args, { ...round.context, trustedTexts, signal }), over.promise]);
    } catch (error) {
      if (!time.aborted) throw error;
      throw appError('tool_timeout', { detail: `It took longer than ${timeoutMs / 1_000} seconds.`, cause: error });
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  /** Throws only when the round is over. */
  async function make(call: NamedCall, place: number): Promise<EndedCall> {
    const startedAt = new Date().toISOString();
    const start = performance.now();
    const tool = byName.get(call.name)?.tool.id ?? resultPreview(call.name).slice(0, 100);
    let args: ToolCallRecord['arguments'] = cutTo(call.arguments, argumentCharacters);
    const ended = (output: ToolOutput, failure: AppError | null): EndedCall => {
      const durationMs = Math.round(performance.now() - start);
      const [status, errorCode] = [statusOf(failure), failure?.code ?? null];
      const told = { tool, status, errorCode, durationMs, ...(failure?.cause !== undefined && { err: failure.cause }) };
      if (status === 'error') logger.warn(told, 'a call of a tool failed');
      else logger.info(told, 'a tool was called');
      return { output, record: { id: call.id, tool, arguments: args, status, errorCode, startedAt, durationMs } };
    };
    try {
      const admitted = admit(call, place);
      args = { ...admitted.args };
      return ended(await run(admitted.offered, admitted.args), null);
    } catch (error) {
      round.signal.throwIfAborted();
      const failure = error instanceof AppError ? error : appError('tool_failed', { cause: error });
      return ended(`${failure.title} (${failure.code}). ${failure.message}`, failure);
    }
  }

  /** What the model has read from now on, and what follows from it. */
  function heed(tool: string, texts: readonly string[]): void {
    readTexts.push(...texts);
    if (tool === searchTool) foundBySearch.push(...texts.flatMap(resultsIn));
    if (!quotingTools.has(tool)) return;
    // What the model wrote into a call and got back is its own.
    const isOwn = (address: string) => sentTexts.some((sent) => sent.includes(address));
    round.know(texts.flatMap((text) => addressesIn(visibleText(text))).filter((address) => !isOwn(address)));
  }

  return {
    callsLeft: () => Math.max(0, maxToolCalls - count),

    /**
     * Makes calls at once. @returns what the model is told of each, in their order
     * @param tokens for all of that together
     */
    async call(calls: readonly NamedCall[], tokens: number): Promise<string[]> {
      const places = calls.map(() => ++count);
      const ended = await Promise.all(calls.map((call, index) => make(call, places[index] ?? count)));
      // One after the other: passages are numbered in the order of the calls.
      return ended.map(({ output, record }) => {
        const name = /^[a-z._]+$/.test(record.tool) ? record.tool : 'unknown';
        const { message, preview, characters, texts } = tell(name, output, Math.floor(tokens / calls.length));
        if (record.status === 'ok') heed(record.tool, texts);
        records.push({ ...record, resultPreview: preview, resultCharacters: characters });
        return message;
      });
    },

    /** All calls so far, in their order. */
    records: (): ToolCallRecord[] => [...records],
  };
}

function statusOf(failure: AppError | null): ToolCallRecord['status'] {
  if (failure === null) return 'ok';
  if (failure.code === 'tool_timeout') return 'timeout';
  return refusals.has(failure.code) ? 'refused' : 'error';
}

/** The addresses of what a search has found, and none that its extracts name. */
function resultsIn(text: string): string[] {
  return text.split('\n').filter((line) => /^https?:\/\/\S+$/.test(line));
}

/** It changes something outside, or sends what the model writes to where the model says. */
function reachesOut({ id, actions }: Tool): boolean {
  return id === 'http.request' || actions.some(({ crudl }) => crudl !== 'read' && crudl !== 'list');
}
