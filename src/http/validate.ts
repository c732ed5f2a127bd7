import type { z } from 'zod';
import { appError, type FieldError } from '#src/errors.ts';
import { fieldMessage } from './field-messages.ts';

/** A body of a megabyte may have a hundred thousand wrong fields: an answer that named all would be eight times as large. */
const maxErrors = 100;
const maxPathLength = 200;

/** Checks a body or a query by its schema; what is wrong with which field becomes a 422. */
export function validate<Schema extends z.ZodType>(schema: Schema, raw: unknown): z.output<Schema> {
  const parsed = schema.safeParse(raw, { error: fieldMessage });
  if (parsed.success) return parsed.data;
  throw invalidFields(parsed.error.issues.flatMap(toFieldErrors));
}

function toFieldErrors(issue: z.core.$ZodIssue): FieldError[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, maxErrors).map((key) => ({
      path: pathOf([...issue.path, key]),
      message: 'This field is not known here',
      code: 'unknown_field',
    }));
  }
  // A refinement may name its own word.
  const word = issue.code === 'custom' && typeof issue.params?.code === 'string' ? issue.params.code : issue.code;
  return [{ path: pathOf(issue.path), message: issue.message, code: word }];
}

function pathOf(path: readonly PropertyKey[]): string {
  const text = path.join('.');
  return text.length > maxPathLength ? `${text.slice(0, maxPathLength - 1)}…` : text;
}

/** A name that is not known explains why others are missing. */
function invalidFields(found: FieldError[]) {
  const { unknown = [], known = [] } = Object.groupBy(found, ({ code }) =>
    code === 'unknown_field' ? 'unknown' : 'known',
  );
  const errors = [...unknown, ...known].slice(0, maxErrors);
  const [first] = errors;
  const detail = first === undefined ? {} : { detail: first.path ? `${first.path}: ${first.message}` : first.message };
  return appError('validation_failed', { ...detail, errors });
}
