import cors from 'cors';
import type { RequestHandler } from 'express';

const allowedHeaders =
  'Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Prefer, X-Request-Id';
const exposedHeaders =
  'Content-Disposition, ETag, Idempotency-Replayed, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id';

/** Allows browsers of the listed origins. Tokens are sent in a header, so credentials (cookies) are not allowed. */
export function createCors(origins: readonly string[]): RequestHandler[] {
  return [
    // Responses to other origins vary, too: a shared cache must not give them to an allowed origin.
    (_req, res, next) => {
      res.vary('Origin');
      next();
    },
    cors({
      // With `false`, the request goes on without CORS headers.
      origin: (origin, decide) => decide(null, origin !== undefined && origins.includes(origin) ? origin : false),
      methods: 'GET, POST, PUT, PATCH, DELETE',
      allowedHeaders,
      exposedHeaders,
      maxAge: 600,
    }),
  ];
}
