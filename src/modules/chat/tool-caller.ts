import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import { canonicalJson } from '#src/domain/access/idempotency.ts';
import { functionNameOf, quotingTools, searchTool, type Tool } from '#src/domain/agents/tools.ts';
import { resultPreview, visibleText } from '#src/domain/chat/context-blocks.ts';
import { addressesIn } from '#src/domain/chat/urls.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ModelToolCall } from '#src/ports/models.ts';
import type { ToolCallContext } from '#src/ports/tools.ts';
import type { ToolCallRecord } from './chat.model.ts';
import type { Citing } from './citer.ts';
import type { RoundTool, ToolOutput } from './round-tools.ts';
import {
  argumentCharacters,
  comparable,
  partsOf,
  readArguments,
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
/** A result with less room says nothing but what it is. */
const leastResultTokens = 150;

/** The round that tools are called in. */
export type ToolRound = {
  /** The same whenever this round is answered. */
  id: string;
  tools: readonly RoundTool[];
  context: Omit<ToolCallContext, 'signal' | 'callKey'>;
  /** What the model has read that no person wrote for it. */
  untrustedTexts: readonly string[];
  /** Earlier answers of the chat. */
  seenTexts: readonly string[];
  /** Numbers the passages that tools find. */
  citing: Pick<Citing, 'add'>;
  /** Told of the addresses that the reply may name from now on. */
  know(addresses: readonly string[]): void;
  /** Records what was changed outside, also where the answer fails after it. */
  acted(tool: Tool, callKey: string): Promise<void>;
  signal: AbortSignal;
};

export type CallerDeps = { tokenCounter: TokenCounter; logger: Pick<Logger, 'info' | 'warn'>; timeoutMs?: number };

type NamedCall = ModelToolCall & { id: string };
/** Where a call stands: its place in the round, and how many behind it are not even refused. */
type Standing = { place: number; hasRoom: boolean; leftOut: number };
type AdmittedCall = { offered: RoundTool; args: ToolArguments; key: string };
type EndedCall = { output: ToolOutput; record: Omit<ToolCallRecord, 'resultPreview' | 'resultCharacters'> };

/**
 * Makes the calls of one round. Whatever goes wrong in one is told to the model, and ends neither the others nor the
 * round; only the round's own signal does.
 */
export function createToolCaller(round: ToolRound, deps: CallerDeps) {
  const { tokenCounter, logger, timeoutMs = defaultTimeoutMs } = deps;
  const tell = createToolTeller({ ...deps, citing: round.citing });
  const byName = new Map(round.tools.map((offered) => [functionNameOf(offered.tool.id), offered]));
  const people = round.context.trustedTexts;
  const spokenTexts = people.map(comparable);
  const seenTexts = round.seenTexts.map(comparable);
  // An answer may have quoted what no passage says any more.
  const readTexts = [...round.untrustedTexts.map(comparable), ...seenTexts];
  const foundBySearch: string[] = [];
  const sentTexts: string[] = [];
  const made = new Set<string>();
  const records: ToolCallRecord[] = [];
  let count = 0;

  /** Throws what the call is refused for. */
  function admit(call: ModelToolCall, { place, hasRoom, leftOut }: Standing): AdmittedCall {
    if (place > maxToolCalls || !hasRoom) {
      const rest = leftOut > 0 ? `Calls left out: ${leftOut}. ` : '';
      throw appError('tool_limit_reached', { detail: `${rest}Answer with what there is.` });
    }
    const offered = byName.get(call.name);
    if (offered === undefined) {
      throw appError('unknown_tool', { detail: `The functions are: ${[...byName.keys()].join(', ')}.` });
    }
    const args = readArguments(offered.tool, call.arguments);
    const key = `${call.name} ${canonicalJson(args)}`;
    if (made.has(key)) {
      throw appError('tool_call_repeated', { detail: 'This was called before with the same arguments.' });
    }
    made.add(key);
    if (reachesOut(offered.tool)) requireOwnWords(offered.tool, args);
    sentTexts.push(...textsIn(args).map(comparable));
    return { offered, args, key };
  }

  /**
   * What stands in a document, and in nothing that a person wrote, is sent nowhere and changes nothing. What an earlier
   * answer proposed may be done, as the user has read it, but no address of it is asked.
   */
  function requireOwnWords({ id }: Tool, args: ToolArguments): void {
    const spoken = id === 'http.request' ? spokenTexts : [...spokenTexts, ...seenTexts];
    const borrowed = textsIn(args)
      .flatMap(partsOf)
      .map(comparable)
      .find(
        (part) =>
          part.length >= tellingCharacters &&
          readTexts.some((text) => text.includes(part)) &&
          !spoken.some((text) => text.includes(part)),
      );
    if (borrowed === undefined) return;
    const detail = `"${borrowed.slice(0, 80)}" stands only in what was read. Ask the user to write it out.`;
    throw appError('untrusted_argument', { detail });
  }

  async function run({ offered: { tool, run }, args, key }: AdmittedCall): Promise<ToolOutput> {
    round.signal.throwIfAborted();
    const time = AbortSignal.timeout(timeoutMs);
    const signal = AbortSignal.any([round.signal, time]);
    const trustedTexts = tool.id === 'web.fetch' ? [...people, ...foundBySearch] : people;
    const callKey = createHash('sha256').update(`${round.id} ${key}`).digest('hex').slice(0, 40);
    const over = Promise.withResolvers<never>();
    const leave = () => over.reject(signal.reason);
    signal.addEventListener('abort', leave);
    const working = run(args, { ...round.context, trustedTexts, callKey, signal }).then(async (output) => {
      if (changesSomething(tool)) await round.acted(tool, callKey);
      return output;
    });
    try {
      // A tool that does not listen is left behind.
      return await Promise.race([working, over.promise]);
    } catch (error) {
      if (!time.aborted) throw error;
      throw appError('tool_timeout', { detail: `It took longer than ${timeoutMs / 1_000} seconds.`, cause: error });
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  /** Throws only when the round is over. */
  async function make(call: NamedCall, standing: Standing): Promise<EndedCall> {
    const startedAt = new Date().toISOString();
    const start = performance.now();
    const tool = byName.get(call.name)?.tool.id ?? (resultPreview(call.name).slice(0, 100) || 'unknown');
    let admitted: AdmittedCall | null = null;
    const ended = (output: ToolOutput, failure: AppError | null): EndedCall => {
      const durationMs = Math.round(performance.now() - start);
      const [status, errorCode] = [statusOf(failure, admitted !== null), failure?.code ?? null];
      const args = admitted === null ? cutTo(call.arguments, argumentCharacters) : { ...admitted.args };
      const told = { tool, status, errorCode, durationMs, ...(failure?.cause !== undefined && { err: failure.cause }) };
      // What a model writes wrongly is no trouble of ours.
      if (status === 'error' && errorCode !== 'tool_arguments_invalid') logger.warn(told, 'a call of a tool failed');
      else logger.info(told, 'a tool was called');
      return { output, record: { id: call.id, tool, arguments: args, status, errorCode, startedAt, durationMs } };
    };
    try {
      admitted = admit(call, standing);
      return ended(await run(admitted), null);
    } catch (error) {
      round.signal.throwIfAborted();
      const failure = error instanceof AppError ? error : appError('tool_failed', { cause: error });
      const mayPass =
        failure.errorClass === 'transient' && admitted !== null && !changesSomething(admitted.offered.tool);
      if (admitted !== null && mayPass) made.delete(admitted.key);
      return ended(`${failure.title} (${failure.code}). ${failure.message}`, failure);
    }
  }

  /** What the model has read from now on, and what follows from it. */
  function heed(tool: string, texts: readonly string[]): void {
    readTexts.push(...texts.map(comparable));
    if (tool === searchTool) foundBySearch.push(...texts.flatMap(resultsIn));
    if (!quotingTools.has(tool)) return;
    // What the model wrote into a call and got back is its own.
    const isOwn = (address: string) => sentTexts.some((sent) => sent.includes(comparable(address)));
    round.know(texts.flatMap((text) => addressesIn(visibleText(text))).filter((address) => !isOwn(address)));
  }

  return {
    callsLeft: () => Math.max(0, maxToolCalls - count),

    /**
     * Makes calls at once. @returns what the model is told of each, in their order
     * @param tokens for all of that together
     * @param leftOut how many more there were, of which the last of these, being refused, tells the model
     */
    async call(calls: readonly NamedCall[], tokens: number, leftOut = 0): Promise<string[]> {
      const roomFor = Math.floor(tokens / leastResultTokens);
      const standingOf = (index: number): Standing => {
        return { place: ++count, hasRoom: index < roomFor, leftOut: index === calls.length - 1 ? leftOut : 0 };
      };
      const ended = await Promise.all(calls.map((call, index) => make(call, standingOf(index))));
      let left = tokens;
      // One after the other: passages are numbered in the order of the calls.
      return ended.map(({ output, record }, index) => {
        const name = /^[a-z._]+$/.test(record.tool) ? record.tool : 'unknown';
        const share = Math.floor(left / (ended.length - index));
        const { message, preview, characters, texts } = tell(name, output, share);
        left -= tokenCounter.count(message);
        if (record.status === 'ok') heed(record.tool, texts);
        records.push({ ...record, resultPreview: preview, resultCharacters: characters });
        return message;
      });
    },

    /** All calls so far, in their order. */
    records: (): ToolCallRecord[] => [...records],
  };
}

function statusOf(failure: AppError | null, wasAdmitted: boolean): ToolCallRecord['status'] {
  if (failure === null) return 'ok';
  if (failure.code === 'tool_timeout') return 'timeout';
  // A tool that looks at its address itself has not asked for it either.
  return wasAdmitted && failure.code !== 'untrusted_argument' ? 'error' : 'refused';
}

/** The addresses of what a search has found, and none that its extracts name. */
function resultsIn(text: string): string[] {
  return text.split('\n').filter((line) => /^https?:\/\/\S+$/.test(line));
}

function changesSomething({ actions }: Tool): boolean {
  return actions.some(({ crudl }) => crudl !== 'read' && crudl !== 'list');
}

/** It changes something outside, or sends what the model writes to where the model says. */
function reachesOut(tool: Tool): boolean {
  return tool.id === 'http.request' || changesSomething(tool);
}
