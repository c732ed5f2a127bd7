import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { createDriveConnector } from '#src/adapters/connectors/drive-connector.ts';
import { createDropboxConnector } from '#src/adapters/connectors/dropbox-connector.ts';
import { encodeFolderListingCursor } from '#src/adapters/connectors/folder-paths.ts';
import { createGraphConnector } from '#src/adapters/connectors/graph-connector.ts';
import { createS3Connector } from '#src/adapters/connectors/s3-connector.ts';
import { createChatModel, createStreamTimeout } from '#src/adapters/models/chat-model.ts';
import { createEmbedder } from '#src/adapters/models/embedder.ts';
import { createModelCatalog } from '#src/adapters/models/model-catalog.ts';
import { createReranker } from '#src/adapters/models/reranker.ts';
import { createOAuthClient } from '#src/adapters/oauth/oauth-client.ts';
import { createSignInStrategy } from '#src/adapters/oauth/sign-in-strategy.ts';
import { createGotenbergRenderer } from '#src/adapters/pdf-renderer/pdf-renderer.ts';
import { createWebSearchTool } from '#src/adapters/tools/brave-search.ts';
import { createHttpRequestTool } from '#src/adapters/tools/built-in-executors.ts';
import { createListEventsTool } from '#src/adapters/tools/google-calendar.ts';
import { createGuardedAgent } from '#src/adapters/web/guarded-agent.ts';
import { createGuardedFetch } from '#src/adapters/web/guarded-fetch.ts';
import { createIdentityProviderHttpClient, createProviderHttpClient } from '#src/adapters/web/provider-caller.ts';
import { createPassport, type PassportDeps } from '#src/http/request/authentication.ts';
import type { ConnectorAccess, RemoteFile } from '#src/ports/connectors.ts';
import type { ModelRequest } from '#src/ports/models.ts';
import type { ToolCredentials } from '#src/ports/tools.ts';
import { type Answer, type HostileKind, type Sound, slowKinds } from './hostile-server.ts';
import { toolContext } from './tool-context.ts';

type Code = string | null | readonly string[];
type Codes = { otherwise: string } & { [kind in HostileKind]?: Code };

/** One way in which the service calls another one. */
export type OutboundClient = {
  answer: Answer;
  /** What else the server is asked, and answers as it should. */
  sound?: Sound;
  /** Makes the call and reads all of its answer. */
  call(): Promise<unknown>;
  /** The code that it fails with for a kind, one of several, or null where it takes the answer. */
  codes: Codes;
};

const MALFORMED = ['a page of HTML', 'wrong types', 'a broken body', 'deep nesting', 'many entries'] as const;
const ENDLESS = [
  ...(['an endless body', 'an endless body without a line end'] as const),
  ...(['a body that is announced as huge', 'a body in chunks of a byte'] as const),
] as const;
/** The same code for several kinds. */
const each = (code: Code, ...kinds: HostileKind[]) =>
  Object.fromEntries(kinds.map((kind) => [kind, code])) as { [kind in HostileKind]?: Code };

const limitBytes = 1_000_000;
const signal = new AbortController().signal;

const json = (head: string, manyBytes = 950_000): Answer => ({
  mediaType: 'application/json',
  head,
  unit: '{},',
  tail: `{}]${'}'.repeat(head.split('{').length - 1)}`,
  wrong: '[7,"x",null]',
  level: '[',
  manyBytes,
});
const xml: Answer = {
  ...{ mediaType: 'application/xml', head: '<?xml version="1.0"?><ListBucketResult><Name>b</Name>' },
  ...{ unit: '<Contents><Key>a</Key><Size>1</Size></Contents>', tail: '</ListBucketResult>', wrong: '<a/>' },
  ...{ level: '<a>', manyBytes: 500_000 },
};
const bytes: Answer = {
  ...{ mediaType: 'application/octet-stream', head: 'head', unit: 'text ', tail: '', wrong: 'x', level: '[' },
  ...{ manyBytes: 500_000 },
};
const stream: Answer = {
  ...{ mediaType: 'text/event-stream', head: ': hello\n\n' },
  ...{ unit: 'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n', tail: 'data: [DONE]\n\n' },
  ...{ wrong: 'data: [7,"x",null]\n\ndata: 7\n\n', level: 'data: [\n', manyBytes: 500_000 },
};

const file: RemoteFile = {
  ...{ fileId: 'f1', name: 'a.txt', path: 'a.txt', mimeType: 'text/plain', sizeBytes: null, isFolder: false },
  revision: '1',
};
const oauth: ConnectorAccess = { kind: 'oauth', accessToken: 'token', siteId: 'site' };
const credentials: ToolCredentials = { use: (_actor, _tool, use) => use('token') };

export type OutboundClients = Awaited<ReturnType<typeof openOutboundClients>>;

/**
 * Every outbound client, each at the same server.
 * @param timeMs each deadline, and each limit of silence
 */
export async function openOutboundClients({ place, timeMs }: { place: string; timeMs: number }) {
  const agent = createGuardedAgent({ allow: [place] });
  const baseUrl = `http://${place}`;
  const call = createProviderHttpClient({ agent, deadlineMs: timeMs });
  const deps = { agent, call, baseUrl, silenceMs: timeMs, downloadMs: timeMs };
  const folder = mkdtempSync(join(tmpdir(), 'outbound-'));
  writeFileSync(join(folder, 'original'), 'the file');
  const drive = createDriveConnector(deps);
  const graph = createGraphConnector({ ...deps, provider: 'acme_onedrive' });
  const sharepoint = createGraphConnector({ ...deps, provider: 'acme_sharepoint' });
  const dropbox = createDropboxConnector(deps);
  const s3 = createS3Connector({ agent, baseUrl, deadlineMs: timeMs, silenceMs: timeMs, downloadMs: timeMs });
  const keys: ConnectorAccess = {
    kind: 'keys',
    ...{ accessKeyId: 'AKIA', secretAccessKey: 'secret', sessionToken: null },
    ...{ bucket: 'b', prefix: '', region: 'us-east-1', endpoint: baseUrl, forcePathStyle: true },
  };
  const web = createGuardedFetch({ agent, timeoutMs: timeMs });
  const endpoint = { baseUrl: `${baseUrl}/v1`, apiKey: 'the-key-of-the-service', timeoutMs: timeMs };
  const chat = createChatModel(endpoint, () => createStreamTimeout(timeMs, timeMs));
  const embedder = createEmbedder({ ...endpoint, model: 'm', estimateTokens: (text) => text.length });
  const reranker = createReranker(endpoint);
  const catalog = createModelCatalog(endpoint);
  const request: ModelRequest = {
    ...{ model: 'm', messages: [{ role: 'user', content: 'Count!' }], temperature: 0, maxTokens: 50 },
    ...{ timeoutMs: timeMs, signal },
  };
  const tokens = createOAuthClient({ call });
  const urls = { authorizeUrl: `${baseUrl}/authorize`, tokenUrl: `${baseUrl}/token`, revokeUrl: `${baseUrl}/revoke` };
  const provider = { issuer: baseUrl, ...urls, client: { id: 'client', secret: 'secret' }, authorizeParameters: {} };
  const readAll = async (content: AsyncIterable<unknown>) => {
    for await (const _ of content);
  };
  const download = (connector: typeof drive, access: ConnectorAccess) => async () =>
    readAll((await connector.download(access, file, { limitBytes, signal })).content);
  const callIssuer = createIdentityProviderHttpClient({ issuer: baseUrl, allow: [], deadlineMs: timeMs });
  const signIn = await signInFlow(baseUrl, callIssuer);

  const provided = { otherwise: 'provider_unavailable' };
  // A file may hold anything.
  const anything = each(null, ...MALFORMED);
  const tooLarge = each('payload_too_large', ...ENDLESS);
  const downloaded: Codes = { ...provided, ...tooLarge, ...anything, 'a gzip bomb': null };
  const read: Codes = {
    ...{ otherwise: 'url_unreachable', ...tooLarge, ...anything, 'a gzip bomb': 'payload_too_large' },
    // Whichever limit it reaches first: that of bytes or that of pieces.
    'a body in chunks of a byte': ['payload_too_large', 'url_unreachable'],
  };
  const discovered: Codes = { ...provided, ...each('provider_response_invalid', 'a gzip bomb', ...MALFORMED) };
  const verified: Codes = {
    ...{ ...discovered, 'wrong types': 'identity_not_verified' },
    'many entries': ['provider_response_invalid', 'identity_not_verified'],
  };
  const away = 'model_unavailable';
  const generated: Codes = {
    otherwise: 'model_response_invalid',
    ...each(away, ...slowKinds, 'headers without end', 'a body shorter than announced', 'a failure without end'),
    ...each(away, 'a connection that is reset', 'a connection that is reset before the answer'),
    'a refusal that comes byte by byte': [away, 'model_not_configured'],
    ...each('model_rejected', 'a refusal without end', 'a redirect in a circle'),
  };
  const printed: Codes = {
    otherwise: 'service_unavailable',
    ...each('too_large', ...ENDLESS, 'a gzip bomb'),
    ...each('conversion_timeout', ...slowKinds),
    ...each('converter_refused', 'a page of HTML', 'wrong types', 'deep nesting', 'a redirect in a circle'),
    ...each(null, 'a broken body', 'many entries'),
    'a refusal without end': 'corrupt_document',
  };
  const files: Codes = { ...downloaded, 'a refusal without end': 'provider_rejected' };
  const circled = { 'a redirect in a circle': 'provider_rejected' };
  const taken = { ...provided, 'wrong types': null, 'many entries': null };
  const of = (answer: Answer, call: OutboundClient['call'], codes: Codes, sound?: Sound): OutboundClient => ({
    ...{ answer, call, codes },
    ...(sound && { sound }),
  });
  const item = (hostile: string, otherwise: string): Sound => ({ hostile, answers: {}, otherwise });
  const driveFile = item('alt=', '{"id":"f1","name":"a.txt","mimeType":"text/plain"}');
  const graphFile = item('/content', '{"id":"f1","name":"a.txt","file":{}}');
  const since = (connector: typeof drive, at: string) => () => connector.changes?.since(oauth, at) ?? Promise.reject();
  const list =
    (connector: typeof drive, access = oauth) =>
    () =>
      connector.list(access, { path: '' }, null);
  const small = json('{"more":[', 250_000);
  const { identify } = signIn;
  const fetchPage = async () => readAll((await web.fetch(`${baseUrl}/page`, { limitBytes })).content);
  const requestPage = () => createHttpRequestTool({ web, allow: [place] })({ url: `${baseUrl}/page` }, toolContext);
  const searchWeb = () => createWebSearchTool({ call, baseUrl, credentials })({ query: 'x' }, toolContext);
  const listEvents = () => createListEventsTool({ call, baseUrl, credentials })({}, toolContext);
  const streamChat = () => chat.stream({ ...request, timeoutMs: null }, () => undefined);
  const rerank = () => reranker.rerank({ model: 'm', query: 'q', documents: ['a', 'b'], signal });
  const print = () => {
    const pdfPath = join(folder, 'printed.pdf');
    rmSync(pdfPath, { force: true });
    return createGotenbergRenderer({ url: baseUrl, limits: { wallMs: timeMs, pdfBytes: limitBytes } }).render({
      ...{ path: join(folder, 'original'), format: 'docx', pdfPath, signal },
    });
  };
  const clients: Record<string, OutboundClient> = {
    'Drive: list': of(json('{"files":['), () => drive.list(oauth, { fileId: 'folder', path: '' }, null), provided),
    'Drive: check': of(json('{"user":{"more":['), () => drive.check(oauth), provided),
    'Drive: changes': of(json('{"changes":['), since(drive, cursor(baseUrl)), provided),
    'Drive: download': of(bytes, download(drive, oauth), files, driveFile),
    'OneDrive: list': of(json('{"value":['), list(graph), provided),
    'OneDrive: check': of(json('{"owner":['), () => graph.check(oauth), provided),
    'OneDrive: changes': of(json('{"value":['), since(graph, cursor(baseUrl)), provided),
    'OneDrive: download': of(bytes, download(graph, oauth), files, graphFile),
    'SharePoint: list': of(json('{"value":['), list(sharepoint), provided),
    'Dropbox: list': of(json('{"entries":['), list(dropbox), provided),
    'Dropbox: changes': of(json('{"entries":['), since(dropbox, 'cursor'), provided),
    'Dropbox: download': of(bytes, download(dropbox, oauth), files),
    'S3: list': of(xml, list(s3, keys), { ...provided, ...circled }),
    'S3: check': of(xml, () => s3.check(keys), { ...provided, ...circled }),
    'S3: download': of(bytes, download(s3, keys), { ...downloaded, ...circled }),
    'web fetch': of({ ...bytes, mediaType: 'text/plain' }, fetchPage, read),
    'http.request': of(json('{"items":['), requestPage, read),
    'web search': of(json('{"web":{"results":['), searchWeb, taken),
    'calendar events': of(json('{"items":['), listEvents, taken),
    'OpenID discovery': of(small, signIn.begin, discovered),
    'OpenID token': of(small, identify, verified, signIn.sound('/token')),
    'OpenID keys': of(json('{"keys":[', 250_000), identify, verified, signIn.sound('/jwks')),
    'OpenID userinfo': of(small, identify, verified, signIn.sound('/userinfo')),
    'OAuth token': of(json('{"more":['), () => tokens.refresh(provider, 'refresh-token'), provided),
    'OAuth revocation': of(json('{"more":['), () => tokens.revoke(provider, 'refresh-token'), {
      ...{ ...provided, ...anything, 'a gzip bomb': null },
    }),
    'chat stream': of(stream, streamChat, generated),
    'chat answer': of(json('{"choices":['), () => chat.complete(request), generated),
    embeddings: of(json('{"data":['), () => embedder.embed(['one', 'two']), generated),
    reranker: of(json('{"results":['), rerank, generated),
    'model list': of(json('{"data":['), () => catalog.list(), { ...generated, 'many entries': null }),
    Gotenberg: of({ ...bytes, mediaType: 'application/pdf', head: '%PDF-1.4\n' }, print, printed),
  };
  return {
    clients,
    close: async () => {
      await agent.destroy();
      rmSync(folder, { recursive: true });
    },
  };
}

function cursor(baseUrl: string): string {
  return encodeFolderListingCursor({ position: `${baseUrl}/v1.0/next`, folderId: 'f', path: '' });
}

async function signInFlow(baseUrl: string, call: ReturnType<typeof createProviderHttpClient>) {
  const { publicKey, privateKey } = await generateKeyPair('RS256');
  const client = { id: 'client', secret: 'secret' };
  const nonce = 'nonce';
  const claims = { iss: baseUrl, sub: 'user', aud: client.id, nonce };
  const idToken = await new SignJWT(claims)
    .setProtectedHeader({ alg: 'RS256', kid: 'k' })
    .setIssuedAt()
    .setExpirationTime('1h')
    .sign(privateKey);
  const answersByPath = {
    '/.well-known/openid-configuration': {
      issuer: baseUrl,
      authorization_endpoint: `${baseUrl}/authorize`,
      token_endpoint: `${baseUrl}/token`,
      jwks_uri: `${baseUrl}/jwks`,
      userinfo_endpoint: `${baseUrl}/userinfo`,
      id_token_signing_alg_values_supported: ['RS256'],
    },
    '/token': { access_token: 'access', token_type: 'Bearer', id_token: idToken },
    '/jwks': { keys: [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'RS256', use: 'sig' }] },
    '/userinfo': { sub: 'user', email: 'user@example.com' },
  };
  const entries = Object.entries(answersByPath).map(([path, answer]) => [path, JSON.stringify(answer)]);
  const answers: Record<string, string> = Object.fromEntries(entries);
  const passport = () => {
    const findSignInStrategy = createSignInStrategy({ call, issuer: baseUrl, client });
    const { identityProvider } = createPassport({
      findSignInStrategy,
      onAccessChange: () => undefined,
    } as unknown as PassportDeps);
    if (identityProvider === null) throw new Error('there is no identity provider');
    return identityProvider;
  };
  const redirectUri = 'https://api.example.com/callback';
  const codeVerifier = createHash('sha256').update('verifier').digest('base64url');
  return {
    begin: () => passport().begin({ redirectUri, state: 'state' }),
    identify: () => passport().identify({ nonce, codeVerifier, redirectUri }, { code: 'code', issuer: undefined }),
    sound: (hostile: string): Sound => ({ hostile, answers, otherwise: '{}' }),
  };
}
