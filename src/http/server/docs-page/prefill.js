// Finds ids of the caller's own resources for the examples of the OpenAPI document, so that requests can be sent as they
// are prefilled. Runs in browsers, and in the test that records the answers.

/**
 * Where the value of a parameter or a field comes from, by its name or by operation and name: the answer of a GET, and
 * a function that takes the value from it. A path may name values above it. Without a value the example stays.
 * @type {Record<string, [path: string, pick: (body: any) => unknown]>}
 */
const sources = {
  username: ['/entity/me/profile', ({ email }) => email],
  'getUserAvatar user_id': ['/entity/me/profile', ({ user_id }) => user_id],
  user_id: [
    '/entity/members',
    ({ items }) => items.findLast((/** @type {any} */ member) => member.added_by !== null)?.user_id,
  ],
  team_id: ['/entity/teams', ({ items }) => items[0]?.id],
  session_id: ['/auth/sessions', ({ items }) => (items.find(isOther) ?? items[0])?.id],
  export_id: ['/entity/org/exports', ({ items }) => items[0]?.export_id],
  export_token: ['/entity/org/exports', ({ items }) => lastSegment(items[0]?.volumes[0]?.download_url)],
  parent_id: ['/folders', (roots) => personalRoot(roots)?.id],
  folder_id: ['/folders', (roots) => (personalRoot(roots)?.folders[0] ?? personalRoot(roots))?.id],
  'deleteFolder folder_id': ['/folders', (roots) => personalRoot(roots)?.folders.find(isEmptyFolder)?.id],
  document_id: ['/documents', ({ items }) => (items.find(isSearchable) ?? items[0])?.id],
  'downloadPreview document_id': ['/documents', ({ items }) => items.find(hasPreview)?.id],
  'unlinkDocument document_id': ['/documents', ({ items }) => items.find(isInSeveralFolders)?.id],
  'unlinkDocument folder_id': ['/documents', ({ items }) => items.find(isInSeveralFolders)?.folder_ids.at(-1)],
  'setRagConfig body': ['/rag/config/{document_id}', ({ config }) => config],
  chunk_id: ['/documents/{document_id}/chunks', ({ items }) => items[0]?.id],
  token: ['/documents/{document_id}/download-url', ({ url }) => lastSegment(url)],
  draft_id: ['/agent-drafts', ({ items }) => draftOf(items)?.id],
  version_id: ['/agent-drafts', ({ items }) => draftOf(items)?.head_version_id],
  parent_version_id: ['/agent-drafts', ({ items }) => draftOf(items)?.head_version_id],
  'unhideDraft draft_id': ['/agent-drafts/hidden', ({ ids }) => ids[0]],
  agent_id: ['/agents', ({ items }) => items[0]?.id],
  'unhideAgent agent_id': ['/agents/hidden', ({ ids }) => ids[0]],
  chat_id: ['/chat?mine=true', ({ items }) => items[0]?.id],
  job_id: ['/jobs', ({ items }) => items[0]?.id],
  'retryJob job_id': ['/jobs?status=failed', ({ items }) => items[0]?.id],
  'skipJob job_id': ['/jobs?status=parked', ({ items }) => items[0]?.id],
  'cancelJob job_id': ['/jobs?status=parked', ({ items }) => items[0]?.id],
  key_id: ['/entity/org/api-keys', ({ items }) => items[0]?.id],
  comparison_id: ['/agent-eval/comparisons', ({ items }) => items[0]?.id],
  'signUrl path': ['/documents', ({ items }) => items[0] && `/documents/${items[0].id}/file`],
  connection_id: ['/connectors/connections', ({ items }) => items[0]?.id],
};

const personalRoot = (/** @type {any[]} */ roots) => roots.find(({ system_role }) => system_role === 'personal_root');
const isEmptyFolder = (/** @type {any} */ { folders, documents }) => folders.length + documents.length === 0;
const isOther = (/** @type {any} */ { current }) => !current;
const isSearchable = (/** @type {any} */ { embedding_complete }) => embedding_complete;
const isInSeveralFolders = (/** @type {any} */ { folder_ids }) => folder_ids.length > 1;
const hasPreview = (/** @type {any} */ { has_preview_pdf }) => has_preview_pdf;
/** A draft with several versions, which can be compared. */
const draftOf = (/** @type {any[]} */ drafts) => drafts.find((draft) => draft.next_version_number > 2) ?? drafts[0];
const lastSegment = (/** @type {string | null | undefined} */ url) => url?.split('/').at(-1);

/** @typedef {{ name: string, in: string, example?: unknown }} Parameter */
/** @typedef {{ parameters: Parameter[], requestBody?: { content: Record<string, { example?: any }> } }} Request */

/**
 * Returns the values of the path's parameters and the JSON body with which an operation can be sent.
 * @param {Request & { operationId: string }} operation
 * @param {(path: string) => Promise<any>} get answers undefined where a request is refused
 * @param {Record<string, unknown>} known values by name, which need no request
 */
export async function prefill({ operationId, parameters, requestBody }, get, known = {}) {
  /** @type {Map<string, Promise<any>>} */
  const answers = new Map();

  /** @returns {Promise<unknown>} */
  async function valueFor(/** @type {string} */ name) {
    const source = sources[`${operationId} ${name}`] ?? sources[name];
    if (known[name] !== undefined || source === undefined) return known[name];
    const [template, pick] = source;
    let path = template;
    for (const [placeholder, needed = ''] of template.matchAll(/\{(\w+)\}/g)) {
      const value = await valueFor(needed);
      if (value === undefined) return undefined;
      path = path.replace(placeholder, String(value));
    }
    const asked = answers.get(path) ?? get(path);
    answers.set(path, asked);
    const answer = await asked;
    return answer === undefined ? undefined : pick(answer);
  }

  /** Each email address is new, since no two accounts have the same. */
  async function fieldFor(/** @type {string} */ name, /** @type {unknown} */ example) {
    if (name === 'email') return String(example).replace('@', `-${crypto.randomUUID().slice(0, 8)}@`);
    return (await valueFor(name)) ?? example;
  }

  const path = await Promise.all(
    parameters
      .filter((parameter) => parameter.in === 'path')
      .map(async ({ name, example }) => [name, (await valueFor(name)) ?? example]),
  );
  const example = requestBody?.content['application/json']?.example;
  const fields = Object.entries(example ?? {}).map(async ([name, value]) => [name, await fieldFor(name, value)]);
  const body = example === undefined ? undefined : Object.fromEntries(await Promise.all(fields));
  return { path: Object.fromEntries(path), body: (await valueFor('body')) ?? body };
}
