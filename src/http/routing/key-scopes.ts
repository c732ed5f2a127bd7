import { type ApiKeyScope, apiKeyScopes } from '#src/domain/access/api-keys.ts';
import { appError } from '#src/errors.ts';

/**
 * The scope with which an API key may change what the routes of a tag are about, and read it too; null for routes that
 * are only for signed-in users. A tag that is missing here is only for signed-in users, too.
 */
const scopeOfTag: Readonly<Partial<Record<string, ApiKeyScope | null>>> = {
  'agent-drafts': 'evaluate',
  'agent-eval': 'evaluate',
  agents: 'evaluate',
  'anchor-words': 'evaluate',
  chat: 'chat',
  connectors: 'ingest',
  documents: 'ingest',
  folders: 'ingest',
  jobs: 'ingest',
  rag: 'ingest',
  logs: 'read',
  models: 'read',
  organization: 'administer',
  teams: 'administer',
  tools: 'administer',
  users: 'administer',
  'api-keys': null,
  auth: null,
  files: null,
  profile: null,
};

/** Scopes of routes that differ from their tag. A consent needs a user at a browser, and a deletion is final. */
const scopesOfOperation: Readonly<Partial<Record<string, readonly ApiKeyScope[]>>> = {
  getMembership: apiKeyScopes,
  authorizeConnector: [],
  finishConnectorConsent: [],
  authorizeTool: [],
  finishToolConsent: [],
  deleteOrganization: [],
};

type RouteFacts = { access: string; method: string; operationId: string; tag: string };

/** Returns the scopes of which an API key needs one to call the route. Empty: the route does not accept API keys. */
export function keyScopesOfRoute({ access, method, operationId, tag }: RouteFacts): readonly ApiKeyScope[] {
  const exception = scopesOfOperation[operationId];
  if (exception !== undefined) return exception;
  const scope = scopeOfTag[tag] ?? null;
  if (scope === null) return [];
  if (access === 'organization:administer') return ['administer'];
  return method === 'get' ? [...new Set(['read', scope] as const)] : [scope];
}

/** The error with which the route refuses an API key. */
export function keyErrorOfRoute(route: RouteFacts): 'session_required' | 'insufficient_scope' {
  return keyScopesOfRoute(route).length === 0 ? 'session_required' : 'insufficient_scope';
}

/** Throws `session_required` or `insufficient_scope` if an API key with these scopes may not call the route. */
export function requireKeyScope(route: RouteFacts, scopes: readonly ApiKeyScope[]): void {
  const accepted = keyScopesOfRoute(route);
  if (accepted.length === 0) {
    throw appError('session_required', {
      detail: 'This request does not accept API keys. Send the access token of a signed-in user.',
    });
  }
  if (accepted.some((scope) => scopes.includes(scope))) return;
  const names = accepted.map((scope) => `\`${scope}\``).join(' or ');
  throw appError('insufficient_scope', {
    detail: `This request needs an API key with the scope ${names}; this key has ${scopes.map((scope) => `\`${scope}\``).join(', ')}.`,
  });
}
