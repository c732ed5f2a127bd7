import { toStorable } from '#src/domain/plain-text.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { ModelToolCall } from '#src/ports/chat-model.ts';
import { isRecord } from './openai-client.ts';

/** More than any model means to call at once, and than any call has to say. */
const maxCalls = 64;
const maxNameCharacters = 200;
const maxArgumentCharacters = 200_000;

type CallSoFar = { index: number | null; id: string; name: string; args: string };

/**
 * Puts calls of tools together, whole ones or pieces of a stream. Services differ: a piece may lack its index, or have
 * that of another call and only an id of its own; a name may come in pieces, or again and again; arguments may be an
 * object. Throws `model_response_invalid` for what is no call in any of these ways.
 */
export function createToolCallPieces() {
  const calls: CallSoFar[] = [];

  /** The call that a piece goes on with, or a new one. */
  function callOf(index: number | null, id: string, name: string): CallSoFar {
    const last = calls.at(-1);
    const known = index === null ? last : calls.findLast((call) => call.index === index);
    const isOther = id !== '' && known !== undefined && known.id !== '' && known.id !== id;
    const isNext = index === null && name !== '' && id === '' && known !== undefined && known.args !== '';
    if (known !== undefined && !isOther && !isNext) return known;
    if (calls.length === maxCalls) throw invalid('it calls too many tools at once');
    const call = { index, id, name: '', args: '' };
    calls.push(call);
    return call;
  }

  function addOne(piece: unknown): void {
    const said = isRecord(piece) ? piece.function : undefined;
    if (!isRecord(piece) || !isRecord(said)) throw invalid('it calls something that is no tool');
    const name = textOf(said.name);
    const id = textOf(piece.id);
    const call = callOf(Number.isInteger(piece.index) ? Number(piece.index) : null, id, name);
    call.id ||= id;
    if (name !== call.name) call.name += name;
    call.args += isRecord(said.arguments) ? JSON.stringify(said.arguments) : textOf(said.arguments);
    if (call.name.length > maxNameCharacters || call.args.length > maxArgumentCharacters) {
      throw invalid('a call of a tool finds no end');
    }
  }

  return {
    /** What stands as `tool_calls` in an answer, or in a piece of one. */
    add(toolCalls: unknown): void {
      if (toolCalls === null || toolCalls === undefined) return;
      if (!Array.isArray(toolCalls)) throw invalid('it calls something that is no tool');
      toolCalls.forEach(addOne);
    },
    calls(): ModelToolCall[] {
      return calls.map(({ name, args }) => {
        if (name.trim() === '') throw invalid('it calls a tool without a name');
        return { name: toStorable(name.trim()), arguments: toStorable(args) };
      });
    },
  };
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'string') throw invalid('a call of a tool is no text');
  return value;
}

function invalid(reason: string): AppError {
  return appError('model_response_invalid', { detail: `The answer of the chat model cannot be used: ${reason}.` });
}
