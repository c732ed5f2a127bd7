import { isStorable } from '#src/domain/plain-text.ts';
import { appError, fieldError } from '#src/errors.ts';

/** No body of ours nests so deep; what is much deeper overflows the stack of whoever walks it. */
const maxLevels = 64;

/**
 * Refuses what no schema would think of, before anybody reads it: text that the database cannot store and nesting
 * without end. Gives the value back.
 */
export function soundInput<Value>(value: Value, path: readonly string[] = []): Value {
  if (path.length > maxLevels) throw appError('malformed_request', { detail: 'The body is nested too deep.' });
  if (typeof value === 'string') requireStorable(value, path);
  if (value !== null && typeof value === 'object') {
    for (const [key, item] of Object.entries(value)) {
      requireStorable(key, path);
      soundInput(item, [...path, key]);
    }
  }
  return value;
}

function requireStorable(text: string, path: readonly string[]): void {
  if (!isStorable(text)) throw fieldError(path.join('.'), 'must not hold NUL or half a character', 'not_text');
}
