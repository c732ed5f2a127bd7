import { isRecord } from '#src/adapters/provider-json.ts';
import { toStorable } from '#src/domain/text/plain-text.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { ModelToolCall } from '#src/ports/models.ts';

/** More than any call has to say: what is beyond is cut off, and what is left refused by whoever makes calls. */
const maxNameCharacters = 200;
const maxArgumentCharacters = 200_000;
/** A model that goes on beyond these finds no end. */
const maxCalls = 64;
const maxCharacters = 4_000_000;

type CallSoFar = { index: number | null; id: string; name: string; args: string };

/**
 * Puts calls of tools together, whole ones or pieces of a stream. Services differ: a piece may lack its index, or have
 * that of another call and only an id of its own; a name may come in pieces, or again and again; arguments may be an
 * object. What is no call in any of these ways becomes one of a tool without a name, so that it can be refused. Throws
 * `model_response_invalid` only for what finds no end.
 */
export function createToolCallPieces() {
  const calls: CallSoFar[] = [];
  let characters = 0;

  /** The call that a piece goes on with, or a new one. */
  function callOf(index: number | null, id: string, name: string): CallSoFar {
    const last = calls.at(-1);
    const known = index === null ? last : calls.findLast((call) => call.index === index);
    const isOther = id !== '' && known !== undefined && known.id !== '' && known.id !== id;
    const isNext = index === null && name !== '' && id === '' && known !== undefined && known.args !== '';
    if (known !== undefined && !isOther && !isNext) return known;
    if (calls.length === maxCalls) throw endless();
    const call = { index, id, name: '', args: '' };
    calls.push(call);
    return call;
  }

  function addOne(value: unknown): void {
    const piece = isRecord(value) ? value : {};
    // Some services send null at first, and the name with a later piece.
    const said = isRecord(piece.function) ? piece.function : {};
    const id = textOf(piece.id);
    const name = textOf(said.name);
    const args = argumentsOf(said.arguments);
    characters += name.length + args.length;
    if (characters > maxCharacters) throw endless();
    const call = callOf(Number.isInteger(piece.index) ? Number(piece.index) : null, id, name);
    call.id ||= id;
    if (name !== call.name) call.name = (call.name + name).slice(0, maxNameCharacters);
    call.args = (call.args + args).slice(0, maxArgumentCharacters);
  }

  return {
    /** What stands as `tool_calls` in an answer, or in a piece of one. */
    add(toolCalls: unknown): void {
      if (toolCalls === null || toolCalls === undefined) return;
      if (Array.isArray(toolCalls)) toolCalls.forEach(addOne);
      else addOne(toolCalls);
    },
    calls: (): ModelToolCall[] =>
      calls.map(({ name, args }) => ({ name: toStorable(name.trim()), arguments: toStorable(args) })),
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function argumentsOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function endless(): AppError {
  return appError('model_response_invalid', {
    detail: 'The answer of the chat model cannot be used: its calls of tools find no end.',
  });
}
