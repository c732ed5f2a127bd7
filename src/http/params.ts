import { z } from 'zod';
import { appError, type ErrorCode, isErrorCode } from '#src/errors.ts';
import type { PathParams } from './route.ts';

/** A path id. What is no UUID cannot exist: it answers with the same 404 code as an unknown one. */
export function idParam(notFound: ErrorCode) {
  return z.guid({ error: notFound }).toLowerCase();
}

/** Path parameters never answer 422: an address that cannot exist is not found. */
export function parseParams(schema: z.ZodType | undefined, raw: unknown): PathParams {
  if (schema === undefined) return {};
  const parsed = schema.safeParse(raw);
  if (parsed.success) return Object(parsed.data);
  const code = parsed.error.issues[0]?.message ?? '';
  throw appError(isErrorCode(code) ? code : 'not_found');
}
