import type { HttpRoute } from '#src/http/routing/route.ts';
import { freshEmail } from './builders.ts';
import { type ApiClient, formOf } from './client.ts';
import { gifOfFrames } from './images.ts';

export type Ids = Record<string, string>;

const credentials = () => ({ email: freshEmail(), password: 'Correct-horse-1' });

/** The routes that need nothing in their body. `deleteAccount` is refused without a password. */
const empty = [
  ...['ingestDocument', 'previewDocumentChunks', 'syncConnection', 'browseConnection'],
  ...['addTeamMember', 'deleteAccount'],
];

/** A valid body for each route that takes one. `word` is in every text, and `config` is a configuration of a document. */
export function bodiesOfRoutes(word: string, config: object): Record<string, (ids: Ids) => object> {
  return {
    uploadDocument: () => formOf({ ingest: 'false' }, new File([word], 'note.txt')),
    pasteDocument: () => ({ name: word, content: word, source_format: 'text' }),
    // Refused after the checks of permissions: nothing leaves the machine.
    importDocumentFromUrl: () => ({ url: 'http://127.0.0.1/' }),
    changeDocument: () => ({ name: word }),
    createFolder: ({ folder_id }) => ({ name: freshEmail(), parent_id: folder_id }),
    changeFolder: () => ({ name: freshEmail() }),
    linkDocument: ({ folder_id }) => ({ folder_id }),
    setRagConfig: () => config,
    previewChunks: () => ({ content: word }),
    createDraft: () => ({ agent_prompt: word }),
    commitVersion: ({ version_id }) => ({ parent_version_id: version_id, force: true }),
    renameVersion: () => ({ title: word }),
    changeDraftScope: () => ({ visibility: 'org_level' }),
    startEvaluation: () => ({ golden_cases: [{ id: 'a', prompt: word }], run_golden: true }),
    evaluate: ({ draft_id, version_id }) => ({ draft_id, version_id, cases: [{ input: word, expected: word }] }),
    evaluatePrompt: ({ draft_id, version_id }) => ({ draft_id, version_id }),
    evaluatePromptAdhoc: () => ({ agent_prompt: word }),
    evaluateCase: ({ draft_id, version_id }) => ({ draft_id, version_id, case: { input: word } }),
    compareVersions: ({ draft_id, version_id }) => ({ draft_id, version_id, baseline_version_id: version_id }),
    importDocumentsFromConnector: ({ connection_id }) => ({ connection_id, files: [{ path: 'x' }] }),
    finishConnectorConsent: () => ({ consent_code: word }),
    finishToolConsent: () => ({ consent_code: word }),
    connectTool: () => ({ api_key: 'not one word' }),
    createS3Connection: () => ({ display_name: word, credentials: {}, config: {} }),
    changeConnection: () => ({ display_name: word }),
    createAgent: () => ({ agent_prompt: word, anchor_words: { loan: 1 } }),
    changeAgent: () => ({ agent_name: word }),
    publishVersion: ({ version_id }) => ({ version_id }),
    expandAnchorWords: ({ agent_id }) => ({ agent_id }),
    sendMessage: ({ agent_id }) => ({ agent_id, message: word }),
    streamMessage: ({ agent_id }) => ({ agent_id, message: word }),
    renameChat: () => ({ title: word }),
    signUrl: ({ chat_id }) => ({ path: `/logs/conversations/${chat_id}/trend.svg` }),
    retryJobs: () => ({ error_code: 'too_large' }),
    createApiKey: () => ({ name: word, scopes: ['read'], expires_at: null }),
    rotateApiKey: () => ({ expires_at: null }),
    updateProfile: () => ({ first_name: word }),
    uploadAvatar: () => formOf({}, new File([new Uint8Array(gifOfFrames(1))], 'me.gif')),
    renameOrganization: () => ({ name: word }),
    createMember: credentials,
    createTeamMember: credentials,
    setOrgAdmin: () => ({ is_org_admin: false }),
    updateUser: () => ({ display_name: word }),
    resetPassword: () => ({ new_password: 'Correct-horse-2' }),
    createTeam: () => ({ name: freshEmail() }),
    setTeamAdmin: () => ({ is_team_admin: false }),
    changePassword: () => ({ current_password: 'Correct-horse-1', new_password: 'Correct-horse-1' }),
    setPassword: () => ({ password: 'Correct-horse-2' }),
    ...Object.fromEntries(empty.map((name) => [name, () => ({})])),
  };
}

/** Whether the path names a thing of an organization, which a provider of tools is not. */
export const namesThing = ({ path }: HttpRoute): boolean => path.replace('/:provider', '').includes(':');

export function askRoute(
  client: ApiClient,
  route: HttpRoute,
  ids: Ids,
  options: { body?: object | undefined; signal?: AbortSignal; headers?: Record<string, string> } = {},
): Promise<Response> {
  const path = route.path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const id = ids[name];
    if (id === undefined) throw new Error(`${route.operationId}: no value for :${name}`);
    return id;
  });
  const { body, signal, headers = {} } = options;
  const isForm = body instanceof FormData;
  // A prefix of the words in the documents of the tests is found, too.
  const query = route.operationId === 'searchDocuments' ? '?q=canary' : '';
  return client.raw(`${path}${query}`, {
    method: route.method.toUpperCase(),
    ...(signal && { signal }),
    ...(body !== undefined && { body: isForm ? body : JSON.stringify(body) }),
    headers: {
      ...headers,
      ...(body !== undefined && !isForm && { 'content-type': 'application/json' }),
      // Its provider does not exist, so that its job would never end.
      ...(route.operationId === 'importDocumentsFromConnector' && { prefer: 'wait=0' }),
    },
  });
}

export const blankNames = ['', '  ', '\u00a0', '\u200b', '\u3164'];

export const badNames = [7, null, [], {}, 'x'.repeat(201), 'two\nlines', 'tab\t', 'Ad\u202ea', 'A\0', '\ud800'];

export const badEmails = [
  ...[7, null, [], {}, '', ' ', 'ada', 'ada@', 'ada@example', 'ada\0@example.com', `${'a'.repeat(400)}@example.com`],
  // U+0430 and U+FF0E look like Latin characters, and U+200B is invisible.
  ...['\u0430da@example.com', 'ada@ex\u0430mple.com', 'ada@example\uff0ecom', 'ad\u200ba@example.com'],
];

export const badPasswords = [
  ...[7, null, {}, '', ' '.repeat(10), 'Short-1', 'no-uppercase-1', 'No-digit-here', `Long-1${'x'.repeat(123)}`],
  ...['Correct-horse-1\0', 'Correct-horse-1\ud800'],
];

export const badSwitches = [null, 'true', 1, [], ''];
