import type { z } from 'zod';
import { appError, type FieldError } from '#src/errors.ts';
import { fieldMessage } from './field-messages.ts';

/** Checks a body or a query by its schema; what is wrong with which field becomes a 422. */
export function validate<Schema extends z.ZodType>(schema: Schema, raw: unknown): z.output<Schema> {
  const parsed = schema.safeParse(raw, { error: fieldMessage });
  if (parsed.success) return parsed.data;
  throw invalidFields(parsed.error.issues.flatMap(toFieldErrors));
}

function toFieldErrors(issue: z.core.$ZodIssue): FieldError[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      path: [...issue.path, key].join('.'),
      message: 'This field is not known here',
      code: 'unknown_field',
    }));
  }
  // A refinement may name its own word.
  const word = issue.code === 'custom' && typeof issue.params?.code === 'string' ? issue.params.code : issue.code;
  return [{ path: issue.path.join('.'), message: issue.message, code: word }];
}

/** A name that is not known explains why others are missing. */
function invalidFields(found: FieldError[]) {
  const { unknown = [], known = [] } = Object.groupBy(found, ({ code }) =>
    code === 'unknown_field' ? 'unknown' : 'known',
  );
  const errors = [...unknown, ...known];
  const [first] = errors;
  const detail = first === undefined ? {} : { detail: first.path ? `${first.path}: ${first.message}` : first.message };
  return appError('validation_failed', { ...detail, errors });
}
