import { z } from 'zod';
import type { ErrorCode } from '#src/errors.ts';
import type { Access, Route } from './route.ts';

/**
 * Every problem that a route can answer with: its own `errors`, and those that follow from what it takes and who may
 * call it. OpenAPI lists them, and the client of the tests takes no others.
 */
export function problemsOf(route: Route): ReadonlySet<ErrorCode> {
  return new Set<ErrorCode>([
    ...(route.errors ?? []),
    ...(route.access === 'public' ? [] : (['invalid_token'] as const)),
    ...(isRefusable(route.access) ? (['forbidden'] as const) : []),
    ...(route.access === 'public' && route.limits === undefined ? [] : (['rate_limited'] as const)),
    ...(takesCursor(route) ? (['invalid_cursor'] as const) : []),
    ...(route.body === undefined
      ? []
      : (['malformed_request', 'payload_too_large', 'request_timeout', 'unsupported_media_type'] as const)),
    'validation_failed',
    // Not every text is a key.
    ...(route.idempotent ? (['malformed_request', 'idempotency_in_flight', 'idempotency_key_reused'] as const) : []),
    ...(route.method === 'patch' || route.method === 'put' ? (['precondition_failed'] as const) : []),
    'internal_error',
    'service_unavailable',
  ]);
}

/** Whoever may not read something is told that it is not there; who may read it and no more is told so. */
function isRefusable(access: Access): boolean {
  return access !== 'public' && access !== 'user' && !access.endsWith(':read');
}

function takesCursor({ query }: Route): boolean {
  return query instanceof z.ZodObject && 'cursor' in query.shape;
}
