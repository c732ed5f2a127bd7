import type { Server, ServerResponse } from 'node:http';
import { listErrorCatalogue } from '#src/errors.ts';
import type { HttpRoute } from '#src/http/routing/route.ts';
import type { AppResponse } from '#src/http/server/middleware.ts';

/** Statuses that any route can answer, tested once for all routes. */
const generalStatuses = new Set([429, 500, 503]);

const statusOfCode = new Map(listErrorCatalogue().map(({ code, status }) => [code, status]));

const declared = new Set<string>();
const answered = new Set<string>();

/** Records the answered statuses. `scripts/test.ts` names those that the routes declare and no process of a run has seen. */
export function recordAnsweredStatuses(server: Server, routes: readonly HttpRoute[]): void {
  for (const { method, path, ...route } of routes)
    for (const status of declaredStatuses(route)) declared.add(`${method.toUpperCase()} ${path} ${status}`);
  server.on('request', (req, res: ServerResponse) => {
    res.once('close', () => {
      const { locals } = res as AppResponse;
      // If the client left before any answer, the status is Node's default.
      if (res.headersSent && locals?.route !== undefined)
        answered.add(`${req.method} ${locals.route} ${res.statusCode}`);
    });
  });
}

function declaredStatuses({ access, responses, errors = [] }: Omit<HttpRoute, 'method' | 'path'>): number[] {
  const statuses = [...Object.keys(responses).map(Number), ...errors.map((code) => statusOfCode.get(code) ?? 0)];
  return (access === 'public' ? statuses : [...statuses, 401]).filter((status) => !generalStatuses.has(status));
}

// A root hook, which runs after the last test of the process.
after(() => {
  if (declared.size > 0) process.send?.({ kind: 'statuses', declared: [...declared], answered: [...answered] });
});
