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
import type { Answer, HostileKind, Sound } from './hostile-server.ts';
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
  mediaType: 'application/xml',
  head: '<?xml version="1.0"?><ListBucketResult><Name>b</Name>',
  unit: '<Contents><Key>a</Key><Size>1</Size></Contents>',
  tail: '</ListBucketResult>',
  wrong: '<a/>',
  level: '<a>',
  manyBytes: 500_000,
};
const bytes: Answer = {
  mediaType: 'application/octet-stream',
  head: 'head',
  unit: 'text ',
  tail: '',
  wrong: 'x',
  level: '[',
  manyBytes: 500_000,
};
const stream: Answer = {
  mediaType: 'text/event-stream',
  head: ': hello\n\n',
  unit: 'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n',
  tail: 'data: [DONE]\n\n',
  wrong: 'data: [7,"x",null]\n\ndata: 7\n\n',
  level: 'data: [\n',
  manyBytes: 500_000,
};

const file: RemoteFile = {
  fileId: 'f1',
  name: 'a.txt',
  path: 'a.txt',
  mimeType: 'text/plain',
  sizeBytes: null,
  isFolder: false,
  revision: '1',
};
const oauth: ConnectorAccess = { kind: 'oauth', accessToken: 'token', siteId: 'site' };
const credentials: ToolCredentials = { use: (_actor, _tool, use) => use('token') };

export const outboundClientNames = [
  'Drive: list',
  'Drive: check',
  'Drive: changes',
  'Drive: download',
  'OneDrive: list',
  'OneDrive: check',
  'OneDrive: changes',
  'OneDrive: download',
  'SharePoint: list',
  'Dropbox: list',
  'Dropbox: changes',
  'Dropbox: download',
  'S3: list',
  'S3: check',
  'S3: download',
  'web fetch',
  'http.request',
  'web search',
  'calendar events',
  'OpenID discovery',
  'OpenID token',
  'OpenID keys',
  'OpenID userinfo',
  'OAuth token',
  'OAuth revocation',
  'chat stream',
  'chat answer',
  'embeddings',
  'reranker',
  'model list',
  'Gotenberg',
] as const;

export type OutboundClients = {
  clients: Readonly<Record<(typeof outboundClientNames)[number], OutboundClient>>;
  close(): Promise<void>;
};

/**
 * Every outbound client, each at the same server.
 * @param timeMs each deadline, and each limit of silence
 */
export async function openOutboundClients({
  place,
  timeMs,
}: {
  place: string;
  timeMs: number;
}): Promise<OutboundClients> {
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
    model: 'm',
    messages: [{ role: 'user', content: 'Count!' }],
    temperature: 0,
    maxTokens: 50,
    timeoutMs: timeMs,
    signal,
  };
  const tokens = createOAuthClient({ call });
  const provider = {
    issuer: baseUrl,
    authorizeUrl: `${baseUrl}/authorize`,
    tokenUrl: `${baseUrl}/token`,
    revokeUrl: `${baseUrl}/revoke`,
    client: { id: 'client', secret: 'secret' },
    authorizeParameters: {},
  };
  const readAll = async (content: AsyncIterable<unknown>) => {
    for await (const _ of content);
  };
  const download = (connector: typeof drive, access: ConnectorAccess) => async () =>
    readAll((await connector.download(access, file, { limitBytes, signal })).content);
  const signIn = await signInFlow(
    baseUrl,
    createIdentityProviderHttpClient({ issuer: baseUrl, allow: [], deadlineMs: timeMs }),
  );

  const provided = { otherwise: 'provider_unavailable' };
  // A file may hold anything.
  const anything = {
    'a page of HTML': null,
    'wrong types': null,
    'a broken body': null,
    'deep nesting': null,
    'many entries': null,
  };
  const tooLarge = {
    'an endless body': 'payload_too_large',
    'an endless body without a line end': 'payload_too_large',
    'a body that is announced as huge': 'payload_too_large',
    'a body in chunks of a byte': 'payload_too_large',
  };
  const downloaded: Codes = { ...provided, ...tooLarge, ...anything, 'a gzip bomb': null };
  const read: Codes = {
    ...{ otherwise: 'url_unreachable', ...tooLarge, ...anything, 'a gzip bomb': 'payload_too_large' },
    // Whichever limit it reaches first: that of bytes or that of pieces.
    'a body in chunks of a byte': ['payload_too_large', 'url_unreachable'],
  };
  const discovered: Codes = {
    ...provided,
    'a gzip bomb': 'provider_response_invalid',
    'a page of HTML': 'provider_response_invalid',
    'wrong types': 'provider_response_invalid',
    'a broken body': 'provider_response_invalid',
    'deep nesting': 'provider_response_invalid',
    'many entries': 'provider_response_invalid',
  };
  const verified: Codes = {
    ...discovered,
    'wrong types': 'identity_not_verified',
    'many entries': ['provider_response_invalid', 'identity_not_verified'],
  };
  const away = 'model_unavailable';
  const generated: Codes = {
    otherwise: 'model_response_invalid',
    'headers that come byte by byte': away,
    'headers without end': away,
    'a body that comes byte by byte': away,
    'a refusal that comes byte by byte': [away, 'model_not_configured'],
    'no answer': away,
    'a body shorter than announced': away,
    'a failure without end': away,
    'a connection that is reset': away,
    'a connection that is reset before the answer': away,
    'a refusal without end': 'model_rejected',
    'a redirect in a circle': 'model_rejected',
  };
  const clients: OutboundClients['clients'] = {
    'Drive: list': {
      answer: json('{"files":['),
      call: () => drive.list(oauth, { fileId: 'folder', path: '' }, null),
      codes: provided,
    },
    'Drive: check': { answer: json('{"user":{"more":['), call: () => drive.check(oauth), codes: provided },
    'Drive: changes': {
      answer: json('{"changes":['),
      call: () => drive.changes?.since(oauth, cursor(baseUrl)) ?? Promise.reject(),
      codes: provided,
    },
    'Drive: download': {
      answer: bytes,
      sound: { hostile: 'alt=', answers: {}, otherwise: '{"id":"f1","name":"a.txt","mimeType":"text/plain"}' },
      call: download(drive, oauth),
      codes: { ...downloaded, 'a refusal without end': 'provider_rejected' },
    },
    'OneDrive: list': {
      answer: json('{"value":['),
      call: () => graph.list(oauth, { path: '' }, null),
      codes: provided,
    },
    'OneDrive: check': { answer: json('{"owner":['), call: () => graph.check(oauth), codes: provided },
    'OneDrive: changes': {
      answer: json('{"value":['),
      call: () => graph.changes?.since(oauth, cursor(baseUrl)) ?? Promise.reject(),
      codes: provided,
    },
    'OneDrive: download': {
      answer: bytes,
      sound: { hostile: '/content', answers: {}, otherwise: '{"id":"f1","name":"a.txt","file":{}}' },
      call: download(graph, oauth),
      codes: { ...downloaded, 'a refusal without end': 'provider_rejected' },
    },
    'SharePoint: list': {
      answer: json('{"value":['),
      call: () => sharepoint.list(oauth, { path: '' }, null),
      codes: provided,
    },
    'Dropbox: list': {
      answer: json('{"entries":['),
      call: () => dropbox.list(oauth, { path: '' }, null),
      codes: provided,
    },
    'Dropbox: changes': {
      answer: json('{"entries":['),
      call: () => dropbox.changes?.since(oauth, 'cursor') ?? Promise.reject(),
      codes: provided,
    },
    'Dropbox: download': {
      answer: bytes,
      call: download(dropbox, oauth),
      codes: { ...downloaded, 'a refusal without end': 'provider_rejected' },
    },
    'S3: list': {
      answer: xml,
      call: () => s3.list(keys, { path: '' }, null),
      codes: { ...provided, 'a redirect in a circle': 'provider_rejected' },
    },
    'S3: check': {
      answer: xml,
      call: () => s3.check(keys),
      codes: { ...provided, 'a redirect in a circle': 'provider_rejected' },
    },
    'S3: download': {
      answer: bytes,
      call: download(s3, keys),
      codes: { ...downloaded, 'a redirect in a circle': 'provider_rejected' },
    },
    'web fetch': {
      answer: { ...bytes, mediaType: 'text/plain' },
      call: async () => readAll((await web.fetch(`${baseUrl}/page`, { limitBytes })).content),
      codes: read,
    },
    'http.request': {
      answer: json('{"items":['),
      call: () => createHttpRequestTool({ web, allow: [place] })({ url: `${baseUrl}/page` }, toolContext),
      codes: read,
    },
    'web search': {
      answer: json('{"web":{"results":['),
      call: () => createWebSearchTool({ call, baseUrl, credentials })({ query: 'x' }, toolContext),
      codes: { ...provided, 'wrong types': null, 'many entries': null },
    },
    'calendar events': {
      answer: json('{"items":['),
      call: () => createListEventsTool({ call, baseUrl, credentials })({}, toolContext),
      codes: { ...provided, 'wrong types': null, 'many entries': null },
    },
    'OpenID discovery': {
      answer: json('{"more":[', 250_000),
      call: () => signIn.begin(),
      codes: discovered,
    },
    'OpenID token': {
      answer: json('{"more":[', 250_000),
      sound: signIn.sound('/token'),
      call: () => signIn.identify(),
      codes: verified,
    },
    'OpenID keys': {
      answer: json('{"keys":[', 250_000),
      sound: signIn.sound('/jwks'),
      call: () => signIn.identify(),
      codes: verified,
    },
    'OpenID userinfo': {
      answer: json('{"more":[', 250_000),
      sound: signIn.sound('/userinfo'),
      call: () => signIn.identify(),
      codes: verified,
    },
    'OAuth token': {
      answer: json('{"more":['),
      call: () => tokens.refresh(provider, 'refresh-token'),
      codes: provided,
    },
    'OAuth revocation': {
      answer: json('{"more":['),
      call: () => tokens.revoke(provider, 'refresh-token'),
      codes: { ...provided, ...anything, 'a gzip bomb': null },
    },
    'chat stream': {
      answer: stream,
      call: () => chat.stream({ ...request, timeoutMs: null }, () => undefined),
      codes: generated,
    },
    'chat answer': {
      answer: json('{"choices":['),
      call: () => chat.complete(request),
      codes: generated,
    },
    embeddings: {
      answer: json('{"data":['),
      call: () => embedder.embed(['one', 'two']),
      codes: generated,
    },
    reranker: {
      answer: json('{"results":['),
      call: () => reranker.rerank({ model: 'm', query: 'q', documents: ['a', 'b'], signal }),
      codes: generated,
    },
    'model list': {
      answer: json('{"data":['),
      call: () => catalog.list(),
      codes: { ...generated, 'many entries': null },
    },
    Gotenberg: {
      answer: { ...bytes, mediaType: 'application/pdf', head: '%PDF-1.4\n' },
      call: () => {
        const pdfPath = join(folder, 'printed.pdf');
        rmSync(pdfPath, { force: true });
        return createGotenbergRenderer({ url: baseUrl, limits: { wallMs: timeMs, pdfBytes: limitBytes } }).render({
          ...{ path: join(folder, 'original'), format: 'docx', pdfPath, signal },
        });
      },
      codes: {
        otherwise: 'service_unavailable',
        'an endless body': 'too_large',
        'an endless body without a line end': 'too_large',
        'a body that is announced as huge': 'too_large',
        'a body in chunks of a byte': 'too_large',
        'a gzip bomb': 'too_large',
        'headers that come byte by byte': 'conversion_timeout',
        'a body that comes byte by byte': 'conversion_timeout',
        'a refusal that comes byte by byte': 'conversion_timeout',
        'no answer': 'conversion_timeout',
        'a page of HTML': 'converter_refused',
        'wrong types': 'converter_refused',
        'deep nesting': 'converter_refused',
        'a redirect in a circle': 'converter_refused',
        'a broken body': null,
        'many entries': null,
        'a refusal without end': 'corrupt_document',
      },
    },
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
