import type { NextFunction, Request } from 'express';
import { appError } from '#src/errors.ts';
import type { AppResponse } from '../server/middleware.ts';
import type { HttpRoute } from './route.ts';

export type Dispatch = (req: Request, res: AppResponse) => Promise<void>;

type Endpoint = { parameters: readonly string[]; routes: HttpRoute[] };
type PathNode = { fixed: Map<string, PathNode>; parameter?: PathNode; endpoint?: Endpoint };
type MatchedPath = { routes: readonly HttpRoute[]; params: Record<string, string> };

/**
 * Finds the routes of a path by its segments; Express would test the pattern of one route after another. Fixed segments
 * come before parameters, so that `/documents/recent` is not read as a document id. Throws a URIError for a parameter
 * that cannot be decoded.
 */
export function createRouteMatcher(routes: readonly HttpRoute[]): (path: string) => MatchedPath | undefined {
  const root = createNode();
  for (const route of routes) endpointAt(root, route.path).routes.push(route);

  return (path) => {
    const [, ...segments] = path.split('/');
    // Accepts a path with or without a slash at its end.
    if (segments.at(-1) === '') segments.pop();
    const values: string[] = [];
    const endpoint = findEndpoint(root, segments, values);
    if (endpoint === undefined) return undefined;
    const { parameters, routes } = endpoint;
    return {
      routes,
      params: Object.fromEntries(parameters.map((name, at) => [name, decodeURIComponent(values[at] ?? '')])),
    };
  };
}

/** Serves the request by the route of its path and method. */
export function createRouteTable(routes: readonly HttpRoute[], dispatch: (route: HttpRoute) => Dispatch) {
  const match = createRouteMatcher(routes);
  const dispatches = new Map(routes.map((route) => [route, dispatch(route)]));

  return (req: Request, res: AppResponse, next: NextFunction): Promise<void> | undefined => {
    const found = match(req.path);
    if (found === undefined) {
      next();
      return undefined;
    }
    const route = found.routes.find((one) => methodsOf(one).includes(req.method));
    const serve = route && dispatches.get(route);
    if (serve === undefined) {
      const allowed = found.routes.flatMap(methodsOf);
      res.set('Allow', allowed.join(', '));
      if (req.method !== 'OPTIONS')
        throw appError('method_not_allowed', { detail: `This path only accepts ${allowed.join(' or ')}.` });
      res.status(204).end();
      return undefined;
    }
    req.params = found.params;
    return serve(req, res);
  };
}

function methodsOf({ method, isSafe }: HttpRoute): string[] {
  return method === 'get' && isSafe !== false ? ['GET', 'HEAD'] : [method.toUpperCase()];
}

function createNode(): PathNode {
  return { fixed: new Map() };
}

function endpointAt(root: PathNode, path: string): Endpoint {
  const segments = path.split('/').filter((segment) => segment !== '');
  let node = root;
  for (const segment of segments) {
    if (segment.startsWith(':')) {
      node.parameter ??= createNode();
      node = node.parameter;
    } else {
      const next = node.fixed.get(segment) ?? createNode();
      node.fixed.set(segment, next);
      node = next;
    }
  }
  const parameters = segments.filter((segment) => segment.startsWith(':')).map((segment) => segment.slice(1));
  node.endpoint ??= { parameters, routes: [] };
  return node.endpoint;
}

/** Appends the values of the parameters on the found path to `values`. */
function findEndpoint(node: PathNode, segments: readonly string[], values: string[], at = 0): Endpoint | undefined {
  const segment = segments[at];
  if (segment === undefined) return node.endpoint;
  const fixed = node.fixed.get(segment);
  const found = fixed && findEndpoint(fixed, segments, values, at + 1);
  if (found !== undefined || node.parameter === undefined || segment === '') return found;
  values.push(segment);
  const ofParameter = findEndpoint(node.parameter, segments, values, at + 1);
  if (ofParameter === undefined) values.pop();
  return ofParameter;
}
