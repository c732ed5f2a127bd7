import { parse } from 'node:querystring';
import { z } from 'zod';
import { type ErrorCode, fieldError } from '#src/errors.ts';
import type { UrlSignatures } from '../request/url-signatures.ts';
import { parsePathParams, requireInputStorableInPostgres, validateInput } from '../request/validation.ts';
import { okAnswer } from '../response/answers.ts';
import { defineRoute, type HttpRoute, isSignableRoute } from './route.ts';
import { createRouteMatcher } from './route-table.ts';

const maxPathLength = 8_192;

const signUrlBody = z.strictObject({
  path: z
    .string()
    .max(maxPathLength)
    .regex(/^\/(?!\/)/, 'must begin with one slash')
    .describe(
      'Path and query of a GET that answers a file, without the base path: an avatar, a chart, a report, an export, a document.',
    ),
});

const signedUrlSchema = z
  .strictObject({
    url: z.url().describe('Answers the file without an access token, for an `<img>` or a link.'),
    expires_in: z.int().describe('Seconds until the URL expires.'),
  })
  .meta({ id: 'SignedUrl' });

/** Codes that only sending a file can have. */
const codesOfSending: readonly ErrorCode[] = ['range_not_satisfiable', 'blob_missing', 'blob_store_refused'];

/**
 * One endpoint signs the URLs of all routes that answer files. It runs the route without sending its answer, so that
 * rights are checked as in a request for the file, and are checked again at each use of the URL.
 */
export function signedUrlRoutes(routes: readonly HttpRoute[], signatures: UrlSignatures): HttpRoute[] {
  const signable = routes.filter(isSignableRoute);
  const match = createRouteMatcher(signable);
  const errors = new Set(signable.flatMap((route) => route.errors ?? []));

  function find(path: string) {
    // Not every text that begins with a slash is a path: a backslash begins a host.
    const { pathname = '', search = '' } = URL.parse(path, 'http://localhost') ?? {};
    const found = match(pathname);
    const [route] = found?.routes ?? [];
    if (found === undefined || route === undefined) {
      throw fieldError('path', 'must be the path of a GET that answers a file');
    }
    return { route, path: pathname + search, params: found.params, query: { ...parse(search.slice(1)) } };
  }

  return [
    defineRoute({
      method: 'post',
      path: '/signed-urls',
      operationId: 'signUrl',
      tag: 'files',
      summary: 'Sign the URL of a file, so that an `<img>` or a link can show it without an access token',
      access: 'user',
      body: signUrlBody,
      responses: { 200: { description: 'The URL', schema: signedUrlSchema } },
      errors: [...errors].filter((code) => !codesOfSending.includes(code)),
      handle: async ({ body, ...context }) => {
        const { route, path, params, query } = find(body.path);
        await route.handle({
          ...context,
          body: undefined,
          params: parsePathParams(route.params, params),
          query: validateInput(route.query ?? z.strictObject({}), requireInputStorableInPostgres(query)),
        });
        const { operationId } = route;
        const caller = { userId: context.actor.userId, sessionId: context.sessionId };
        const signature = signatures.sign(caller, { operationId, params, query });
        const url = `${context.publicUrl}${path}${path.includes('?') ? '&' : '?'}signature=${signature}`;
        return okAnswer({ url, expires_in: signatures.lifetimeSeconds }, { 'Cache-Control': 'no-store' });
      },
    }),
  ];
}
