import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
import { createListEventsTool } from '#src/adapters/tools/google-calendar.ts';
import { createGuardedAgent } from '#src/adapters/web/guarded-agent.ts';
import { createGuardedFetch } from '#src/adapters/web/guarded-fetch.ts';
import { createIdentityProviderHttpClient, createProviderHttpClient } from '#src/adapters/web/provider-caller.ts';
import type { Connector, ConnectorAccess, RemoteFile } from '#src/ports/connectors.ts';
import type { ModelRequest } from '#src/ports/models.ts';
import type { ToolCredentials } from '#src/ports/tools.ts';
import { type Answer, type HostileKind, type Sound, slowKinds } from '#test/support/hostile-server.ts';
import { toolContext } from '#test/support/tool-context.ts';

type Code = string | null | readonly string[];
type Codes = { otherwise: string } & { [kind in HostileKind]?: Code };

/** One way in which the service calls another one. */
export type OutboundClient = {
  answer: Answer;
  /** Makes the call and reads all of its answer. */
  call(): Promise<unknown>;
  /** The error code for each kind of answer, or several possible ones; null where the client accepts the answer. */
  codes: Codes;
  /** Valid answers to the other requests of the client. */
  sound?: Sound | undefined;
};

const MALFORMED = ['a page of HTML', 'wrong types', 'a broken body', 'deep nesting', 'many entries'] as const;
const ENDLESS = [
  'an endless body',
  'an endless body without a line end',
  'a body that is announced as huge',
  'a body in chunks of a byte',
] as const;
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
const bytes = (mediaType = 'application/octet-stream', head = 'head'): Answer => {
  return { mediaType, head, unit: 'text ', tail: '', wrong: 'x', level: '[', manyBytes: 500_000 };
};
const xml: Answer = {
  mediaType: 'application/xml',
  head: '<?xml version="1.0"?><ListBucketResult><Name>b</Name>',
  unit: '<Contents><Key>a</Key><Size>1</Size></Contents>',
  tail: '</ListBucketResult>',
  wrong: '<a/>',
  level: '<a>',
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

const provided: Codes = { otherwise: 'provider_unavailable' };
// A file may hold anything.
const anything = each(null, ...MALFORMED);
const tooLarge = each('payload_too_large', ...ENDLESS);
const downloaded: Codes = { ...provided, ...tooLarge, ...anything, 'a gzip bomb': null };
const file: Codes = { ...downloaded, 'a refusal without end': 'provider_rejected' };
const circled = { 'a redirect in a circle': 'provider_rejected' };
const found: Codes = { ...provided, 'wrong types': null, 'many entries': null };
const fetched: Codes = {
  otherwise: 'url_unreachable',
  ...tooLarge,
  ...anything,
  'a gzip bomb': 'payload_too_large',
  // The client may reach the limit of bytes or that of pieces first.
  'a body in chunks of a byte': ['payload_too_large', 'url_unreachable'],
};
const discovered: Codes = { ...provided, ...each('provider_response_invalid', 'a gzip bomb', ...MALFORMED) };
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

export type OutboundClients = ReturnType<typeof openOutboundClients>;

/**
 * Every outbound client, each at the same server.
 * @param timeMs each deadline, and each limit of silence
 */
export function openOutboundClients({ place, timeMs }: { place: string; timeMs: number }) {
  const agent = createGuardedAgent({ allow: [place] });
  const baseUrl = `http://${place}`;
  const call = createProviderHttpClient({ agent, deadlineMs: timeMs });
  const folder = mkdtempSync(join(tmpdir(), 'outbound-'));
  writeFileSync(join(folder, 'original'), 'the file');

  const deps = { agent, call, baseUrl, deadlineMs: timeMs, silenceMs: timeMs, downloadMs: timeMs };
  const [drive, dropbox, s3] = [createDriveConnector(deps), createDropboxConnector(deps), createS3Connector(deps)];
  const graph = createGraphConnector({ ...deps, provider: 'acme_onedrive' });
  const token: ConnectorAccess = { kind: 'oauth', accessToken: 'token', siteId: 'site' };
  const keys: ConnectorAccess = {
    kind: 'keys',
    accessKeyId: 'AKIA',
    secretAccessKey: 'secret',
    sessionToken: null,
    bucket: 'b',
    prefix: '',
    region: 'us-east-1',
    endpoint: baseUrl,
    forcePathStyle: true,
  };
  const remote: RemoteFile = {
    fileId: 'f1',
    name: 'a.txt',
    path: 'a.txt',
    mimeType: 'text/plain',
    sizeBytes: null,
    isFolder: false,
    revision: '1',
  };
  const readAll = async (content: AsyncIterable<unknown>) => {
    for await (const _ of content);
  };
  const list = (connector: Connector, access: ConnectorAccess) => () =>
    connector.list(access, { fileId: 'folder', path: '' }, null);
  const since = (connector: Connector, cursor: string) => () =>
    connector.changes?.since(token, cursor) ?? Promise.reject();
  const cursor = encodeFolderListingCursor({ position: `${baseUrl}/v1.0/next`, folderId: 'f', path: '' });
  const download = (connector: Connector, access: ConnectorAccess) => async () =>
    readAll((await connector.download(access, remote, { limitBytes, signal })).content);
  const item = (hostile: string, otherwise: string): Sound => ({ hostile, answers: {}, otherwise });

  const web = createGuardedFetch({ agent, timeoutMs: timeMs });
  const credentials: ToolCredentials = { use: (_actor, _tool, use) => use('token') };
  const searchWeb = createWebSearchTool({ call, baseUrl, credentials });
  const listEvents = createListEventsTool({ call, baseUrl, credentials });
  const tokens = createOAuthClient({ call });
  const urls = { issuer: baseUrl, authorizeUrl: `${baseUrl}/authorize`, tokenUrl: `${baseUrl}/token`, revokeUrl: null };
  const provider = { ...urls, client: { id: 'client', secret: 'secret' }, authorizeParameters: {} };
  const callIssuer = createIdentityProviderHttpClient({ issuer: baseUrl, allow: [], deadlineMs: timeMs });
  const discover = () => createSignInStrategy({ call: callIssuer, issuer: baseUrl, client: provider.client })();

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
  const gotenberg = createGotenbergRenderer({ url: baseUrl, limits: { wallMs: timeMs, pdfBytes: limitBytes } });
  const print = () => {
    const pdfPath = join(folder, 'printed.pdf');
    rmSync(pdfPath, { force: true });
    return gotenberg.render({ path: join(folder, 'original'), format: 'docx', pdfPath, signal });
  };

  const of = (answer: Answer, call: OutboundClient['call'], codes: Codes, sound?: Sound): OutboundClient => {
    return { answer, call, codes, sound };
  };
  const driveFile = item('alt=', '{"id":"f1","name":"a.txt","mimeType":"text/plain"}');
  const graphFile = item('/content', '{"id":"f1","name":"a.txt","file":{}}');
  const clients: Record<string, OutboundClient> = {
    'Drive: list': of(json('{"files":['), list(drive, token), provided),
    'Drive: changes': of(json('{"changes":['), since(drive, cursor), provided),
    'Drive: download': of(bytes(), download(drive, token), file, driveFile),
    'OneDrive: list': of(json('{"value":['), list(graph, token), provided),
    'OneDrive: changes': of(json('{"value":['), since(graph, cursor), provided),
    'OneDrive: download': of(bytes(), download(graph, token), file, graphFile),
    'Dropbox: list': of(json('{"entries":['), list(dropbox, token), provided),
    'Dropbox: changes': of(json('{"entries":['), since(dropbox, 'cursor'), provided),
    'Dropbox: download': of(bytes(), download(dropbox, token), file),
    'S3: list': of(xml, list(s3, keys), { ...provided, ...circled }),
    'S3: download': of(bytes(), download(s3, keys), { ...downloaded, ...circled }),
    'web fetch': of(
      bytes('text/plain'),
      async () => readAll((await web.fetch(`${baseUrl}/page`, { limitBytes })).content),
      fetched,
    ),
    'web search': of(json('{"web":{"results":['), () => searchWeb({ query: 'x' }, toolContext), found),
    'calendar events': of(json('{"items":['), () => listEvents({}, toolContext), found),
    'OpenID discovery': of(json('{"more":[', 250_000), discover, discovered),
    'OAuth token': of(json('{"more":['), () => tokens.refresh(provider, 'refresh-token'), provided),
    'chat stream': of(stream, () => chat.stream({ ...request, timeoutMs: null }, () => undefined), generated),
    'chat answer': of(json('{"choices":['), () => chat.complete(request), generated),
    embeddings: of(json('{"data":['), () => embedder.embed(['one', 'two']), generated),
    reranker: of(
      json('{"results":['),
      () => reranker.rerank({ model: 'm', query: 'q', documents: ['a', 'b'], signal }),
      generated,
    ),
    'model list': of(json('{"data":['), () => catalog.list(), { ...generated, 'many entries': null }),
    Gotenberg: of(bytes('application/pdf', '%PDF-1.4\n'), print, printed),
  };
  return {
    clients,
    close: async () => {
      await agent.destroy();
      rmSync(folder, { recursive: true });
    },
  };
}
