import { isStorable } from '#src/domain/plain-text.ts';
import { appError, fieldError } from '#src/errors.ts';

/** No schema nests so deep, and a recursive function would overflow the stack on much more. */
const maxLevels = 64;

/**
 * Refuses what schemas do not look for: text that the database cannot store, and too many levels.
 * @returns the value
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
