import { createHash, timingSafeEqual } from 'node:crypto';
import express, { type Express, type NextFunction, type Request } from 'express';
import type { Logger } from 'pino';
import { z } from 'zod';
import { appError } from '#src/errors.ts';
import { readJsonBody } from '../request/body.ts';
import { validateInput } from '../request/validation.ts';
import { createErrorHandler } from '../response/problem.ts';
import { isSentToLocalHost } from './http-server.ts';
import { type AppResponse, createRequestLog } from './middleware.ts';

type StoredPayload = { metadata?: Record<string, Uint8Array> | null; data?: Uint8Array | null };

type CodecAppDeps = {
  codec: Record<'encode' | 'decode', (payloads: StoredPayload[]) => Promise<StoredPayload[]>>;
  uiOrigins: readonly string[];
  /** If null, the server requires no token, but only accepts requests whose `Host` header names this machine. */
  token: string | null;
  logger: Logger;
};

/** Maximum request to the codec server: one page of workflow history (4 MB by Temporal) as base64. */
const bodyLimitBytes = 16 * 1024 * 1024;

/** `payloads` is optional, because Temporal sends none for queries without arguments. */
const bodySchema = z.object({
  payloads: z
    .array(z.object({ metadata: z.record(z.string(), z.base64()).default({}), data: z.base64().default('') }))
    .default([]),
});

/** Temporal codec server: the Temporal UI and CLI send payloads to it for decryption. */
export function createCodecApp({ codec, uiOrigins, token, logger }: CodecAppDeps): Express {
  const app = express().disable('x-powered-by').disable('etag');
  const isAuthorized = token === null ? () => true : bearerOf(token);

  app.use(createRequestLog(logger));
  app.get('/healthz', (_req, res: AppResponse) => {
    res.locals.route = '/healthz';
    res.json({ status: 'ok' });
  });
  app.use((req: Request, res: AppResponse, next: NextFunction) => {
    const origin = req.get('origin');
    if (token === null && !isSentToLocalHost(req.headers)) {
      throw appError('forbidden', {
        detail: 'Without CODEC_TOKEN the server only accepts requests whose Host header names this machine.',
      });
    }
    res.vary('Origin');
    if (origin !== undefined) {
      if (!uiOrigins.includes(origin)) {
        throw appError('forbidden', { detail: 'The origin is not among CODEC_UI_ORIGINS.' });
      }
      // Allows credentials, because a proxy in front of this server may authenticate users by cookies.
      res.set({ 'Access-Control-Allow-Origin': origin, 'Access-Control-Allow-Credentials': 'true' });
    }
    if (req.method !== 'OPTIONS') return next();
    res.set({
      'Access-Control-Allow-Methods': 'POST',
      'Access-Control-Allow-Headers': req.get('access-control-request-headers') ?? '',
      'Access-Control-Max-Age': '600',
    });
    return res.status(204).end();
  });
  for (const direction of ['encode', 'decode'] as const) {
    app.post(`/${direction}`, async (req: Request, res: AppResponse) => {
      res.locals.route = `/${direction}`;
      if (!isAuthorized(req.get('authorization'))) throw appError('invalid_token');
      const { payloads } = validateInput(bodySchema, await readJsonBody(req, bodyLimitBytes));
      const answer = await codec[direction](payloads.map(fromJson)).catch((error: unknown) => {
        throw appError('malformed_request', { detail: error instanceof Error ? error.message : String(error) });
      });
      res.set('Cache-Control', 'no-store').json({ payloads: answer.map(toJson) });
    });
  }
  app.use(() => {
    throw appError('not_found');
  });
  app.use(createErrorHandler({ logger, isOutage: () => false }));
  return app;
}

function bearerOf(token: string): (header: string | undefined) => boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  const expected = hash(`Bearer ${token}`);
  return (header) => timingSafeEqual(hash(header ?? ''), expected);
}

function fromJson({ metadata, data }: z.output<typeof bodySchema>['payloads'][number]): StoredPayload {
  const decoded = Object.entries(metadata).map(([name, value]) => [name, Buffer.from(value, 'base64')]);
  return { metadata: Object.fromEntries(decoded), data: Buffer.from(data, 'base64') };
}

function toJson({ metadata, data }: StoredPayload) {
  const encoded = Object.entries(metadata ?? {}).map(([name, value]) => [name, base64(value)]);
  return { metadata: Object.fromEntries(encoded), data: base64(data ?? new Uint8Array()) };
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}
