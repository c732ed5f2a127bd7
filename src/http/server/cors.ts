import type { NextFunction, Request, Response } from 'express';

const allowedHeaders =
  'Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Prefer, X-Request-Id';
const exposedHeaders =
  'Content-Disposition, ETag, Idempotency-Replayed, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id';

/** Allows browsers of the listed origins. Tokens are sent in a header, so credentials (cookies) are not allowed. */
export function createCors(origins: readonly string[]) {
  const allowed = new Set(origins);

  return (req: Request, res: Response, next: NextFunction): void => {
    const origin = req.get('origin');
    const isAllowed = origin !== undefined && allowed.has(origin);
    const isPreflight = req.method === 'OPTIONS' && req.get('access-control-request-method') !== undefined;
    if (allowed.size > 0) res.vary('Origin');
    if (isAllowed) {
      res.set({ 'Access-Control-Allow-Origin': origin, 'Access-Control-Expose-Headers': exposedHeaders });
    }
    if (!isAllowed || !isPreflight) {
      next();
      return;
    }
    res.set({
      'Access-Control-Allow-Methods': 'GET, POST, PUT, PATCH, DELETE',
      'Access-Control-Allow-Headers': allowedHeaders,
      'Access-Control-Max-Age': '600',
    });
    res.status(204).end();
  };
}
