import express, { type Router } from 'express';
import { appError } from '#src/errors.ts';
import type { createDispatcher } from './dispatch.ts';
import type { Route } from './route.ts';

/** Creates a router: fixed paths before parameters, 405 for other methods of a known path. */
export function createRouteTable(routes: readonly Route[], dispatch: ReturnType<typeof createDispatcher>): Router {
  const router = express.Router({ caseSensitive: true });
  const byPath = [...Map.groupBy(routes, (route) => route.path)].sort(([a], [b]) => comparePaths(a, b));
  for (const [path, ofPath] of byPath) {
    const at = router.route(path);
    for (const route of ofPath) {
      // Express answers HEAD with the handler of GET unless HEAD has its own.
      if (route.isSafe === false) at.head((_req, _res, next) => next());
      at[route.method](dispatch(route));
    }
    at.all((req, res) => {
      const methods = ofPath.flatMap(({ method, isSafe = true }) =>
        method === 'get' && isSafe ? ['GET', 'HEAD'] : [method.toUpperCase()],
      );
      res.set('Allow', methods.join(', '));
      if (req.method !== 'OPTIONS') throw appError('method_not_allowed', { detail: `Use ${methods.join(' or ')}.` });
      res.status(204).end();
    });
  }
  return router;
}

/** Sorts fixed segments before parameters, so that `/documents/recent` is not read as a document id. */
function comparePaths(a: string, b: string): number {
  const [left, right] = [a.split('/'), b.split('/')];
  for (const [index, segment] of left.entries()) {
    const other = right[index];
    if (other === undefined) return 1;
    const order = Number(segment.startsWith(':')) - Number(other.startsWith(':'));
    if (order !== 0) return order;
  }
  return left.length - right.length;
}
