import { z } from 'zod';
import { isStorableInPostgres } from '#src/domain/text/plain-text.ts';
import { appError, type ErrorCode, type FieldError, fieldError, isErrorCode } from '#src/errors.ts';
import type { PathParams } from '../routing/route.ts';

/** Maximum number of `errors` in a response, because a body may have thousands of invalid fields. */
const maxErrors = 100;
const maxPathLength = 200;

export function validateInput<Schema extends z.ZodType>(schema: Schema, raw: unknown): z.output<Schema> {
  const parsed = schema.safeParse(raw, { error: fieldMessage });
  if (parsed.success) return parsed.data;
  throw invalidFields(parsed.error.issues.flatMap(toFieldErrors));
}

function toFieldErrors(issue: z.core.$ZodIssue): FieldError[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, maxErrors).map((key) => ({
      path: pathOf([...issue.path, key]),
      message: 'This field is not known',
      code: 'unknown_field',
    }));
  }
  const code = issue.code === 'custom' && typeof issue.params?.code === 'string' ? issue.params.code : issue.code;
  return [{ path: pathOf(issue.path), message: issue.message, code }];
}

function pathOf(path: readonly PropertyKey[]): string {
  const text = path.join('.');
  return text.length > maxPathLength ? `${text.slice(0, maxPathLength - 1)}…` : text;
}

/** Sorts errors of unknown fields first, because a misspelled field name explains why another field is missing. */
function invalidFields(found: FieldError[]) {
  const { unknown = [], known = [] } = Object.groupBy(found, ({ code }) =>
    code === 'unknown_field' ? 'unknown' : 'known',
  );
  const errors = [...unknown, ...known].slice(0, maxErrors);
  const [first] = errors;
  const detail = first === undefined ? {} : { detail: first.path ? `${first.path}: ${first.message}` : first.message };
  return appError('validation_failed', { ...detail, errors });
}

const kinds: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

const units: Readonly<Record<string, string>> = { string: ' characters', array: ' items', record: ' entries' };

/** Error message to show after a field's name: "limit: must be at most 100". Undefined keeps the schema's message. */
function fieldMessage(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return 'is required';
      return `must be ${kinds[issue.expected] ?? issue.expected}`;
    case 'too_small':
      return `must ${have(issue.origin)}at least ${issue.minimum}${units[issue.origin] ?? ''}`;
    case 'too_big':
      return `must ${have(issue.origin)}at most ${issue.maximum}${units[issue.origin] ?? ''}`;
    case 'invalid_value':
      return `must be ${issue.values.length === 1 ? '' : 'one of '}${issue.values.map(String).join(', ')}`;
    case 'invalid_format':
      return issue.format === 'guid' || issue.format === 'uuid' ? 'must be an id (UUID)' : undefined;
    case 'invalid_union':
      return 'has none of the accepted forms';
    case 'invalid_key':
      return 'has a name that is not accepted';
    default:
      return undefined;
  }
}

const have = (origin: string): string => (origin in units ? 'have ' : 'be ');

/** Schema of an id in the path. A text that is not a UUID gives the same 404 as an unknown id. */
export function uuidPathParam(notFound: ErrorCode) {
  return z.guid({ error: notFound }).toLowerCase();
}

export function parsePathParams(schema: z.ZodType | undefined, raw: unknown): PathParams {
  if (schema === undefined) return {};
  const parsed = schema.safeParse(raw);
  if (parsed.success) return Object(parsed.data);
  const code = parsed.error.issues[0]?.message ?? '';
  throw appError(isErrorCode(code) ? code : 'not_found');
}

/** Maximum nesting of a body; protects recursive functions from a stack overflow. */
const maxLevels = 64;

/** Rejects text that Postgres cannot store, and bodies nested too deeply, because the schemas check neither. */
export function requireInputStorableInPostgres<Value>(value: Value): Value {
  checkNested(value, []);
  return value;
}

/** Recursive calls share one mutable `path` array, because a body may have thousands of fields. */
function checkNested(value: unknown, path: string[]): void {
  if (path.length > maxLevels)
    throw appError('malformed_request', { detail: `The body may be nested at most ${maxLevels} levels deep.` });
  if (typeof value === 'string') requireStorable(value, path);
  if (value === null || typeof value !== 'object') return;
  for (const key of Object.keys(value)) {
    requireStorable(key, path);
    path.push(key);
    checkNested(value[key as keyof typeof value], path);
    path.pop();
  }
}

function requireStorable(text: string, path: readonly string[]): void {
  if (!isStorableInPostgres(text))
    throw fieldError(path.join('.'), 'must not contain NUL or unpaired surrogates', 'not_text');
}
