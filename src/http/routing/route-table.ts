import type { NextFunction, Request } from 'express';
import { appError } from '#src/errors.ts';
import type { AppResponse } from '../server/middleware.ts';
import type { HttpRoute } from './route.ts';

export type Dispatch = (req: Request, res: AppResponse) => Promise<void>;

type Endpoint = { parameters: readonly string[]; dispatches: Map<string, Dispatch>; allowed: string[] };
type PathNode = { fixed: Map<string, PathNode>; parameter?: PathNode; endpoint?: Endpoint };

/**
 * Finds the route of a request by the segments of its path; Express would test the pattern of one route after another.
 * Fixed segments come before parameters, so that `/documents/recent` is not read as a document id.
 */
export function createRouteTable(routes: readonly HttpRoute[], dispatch: (route: HttpRoute) => Dispatch) {
  const root = createNode();
  for (const route of routes) {
    const { dispatches, allowed } = endpointAt(root, route.path);
    const method = route.method.toUpperCase();
    const serve = dispatch(route);
    for (const accepted of method === 'GET' && route.isSafe !== false ? ['GET', 'HEAD'] : [method]) {
      dispatches.set(accepted, serve);
      allowed.push(accepted);
    }
  }

  return (req: Request, res: AppResponse, next: NextFunction): Promise<void> | undefined => {
    const [, ...segments] = req.path.split('/');
    // Accepts a path with or without a slash at its end.
    if (segments.at(-1) === '') segments.pop();
    const values: string[] = [];
    const endpoint = findEndpoint(root, segments, values);
    if (endpoint === undefined) {
      next();
      return undefined;
    }
    const { parameters, dispatches, allowed } = endpoint;
    const serve = dispatches.get(req.method);
    if (serve === undefined) {
      res.set('Allow', allowed.join(', '));
      if (req.method !== 'OPTIONS')
        throw appError('method_not_allowed', { detail: `This path only accepts ${allowed.join(' or ')}.` });
      res.status(204).end();
      return undefined;
    }
    req.params = Object.fromEntries(parameters.map((name, at) => [name, decodeURIComponent(values[at] ?? '')]));
    return serve(req, res);
  };
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
  node.endpoint ??= { parameters, dispatches: new Map(), allowed: [] };
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
