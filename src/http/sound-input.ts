import { isStorable } from '#src/domain/plain-text.ts';
import { appError, fieldError } from '#src/errors.ts';

/** No body of ours nests so deep; what is much deeper overflows the stack of whoever walks it. */
const maxLevels = 64;

/**
 * Refuses what no schema would think of, before anybody reads it: text that the database cannot store and nesting
 * without end. Gives the value back.
 */
export function soundInput<Value>(value: Value): Value {
  requireSound(value, []);
  return value;
}

/** @param path one list for all of the body, since a body may have a hundred thousand fields */
function requireSound(value: unknown, path: string[]): void {
  if (path.length > maxLevels) throw appError('malformed_request', { detail: 'The body is nested too deep.' });
  if (typeof value === 'string') requireStorable(value, path);
  if (value === null || typeof value !== 'object') return;
  for (const key of Object.keys(value)) {
    requireStorable(key, path);
    path.push(key);
    requireSound(value[key as keyof typeof value], path);
    path.pop();
  }
}

function requireStorable(text: string, path: readonly string[]): void {
  if (!isStorable(text)) throw fieldError(path.join('.'), 'must not hold NUL or half a character', 'not_text');
}
