import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { z } from 'zod';
import { anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { ApiKeyScope } from '#src/domain/access/api-keys.ts';
import {
  type AgentDto,
  agentSchema,
  type PublishedAgentDto,
  publishedAgentSchema,
} from '#src/modules/agents/agents.schema.ts';
import { apiKeyWithSecretSchema } from '#src/modules/api-keys/api-keys.schema.ts';
import { chatEventSchema, chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { committedDraftVersionSchema, draftDetailSchema } from '#src/modules/drafts/drafts.schema.ts';
import { comparisonListSchema } from '#src/modules/evaluations/comparisons.schema.ts';
import { evaluationResultSchema } from '#src/modules/evaluations/evaluations.schema.ts';
import { type FolderDto, folderSchema, folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { userSchema } from '#src/modules/members/members.schema.ts';
import { teamSchema } from '#src/modules/teams/teams.schema.ts';
import { type ApiClient, type Member, readEvents, type StreamEvent } from './client.ts';
import { collect } from './collect.ts';
import type { Stack } from './stack.ts';
import { untilJob, untilRun } from './until-job.ts';

export const freshEmail = (name = 'user'): string => `${name}-${randomUUID()}@example.com`;

const password = 'Correct-horse-1';

/**
 * Another member of an org admin's organization, signed in. Fields are those of POST /entity/members. The session is
 * opened without checking the password, which would double the time.
 */
export async function aColleague(
  { container, anonymous }: Stack,
  { orgId, post }: Member,
  name = 'Grace',
  fields: object = {},
): Promise<Member> {
  const email = freshEmail(name.toLowerCase());
  const sent = { email, password, display_name: name, ...fields };
  const { user_id: userId } = userSchema.parse((await post('/entity/members', sent, 201)).body);
  const from = { network: '127.0.0.1', userAgent: null };
  const { sessionId, refreshToken } = await container.sessions.open(container.db, userId, from);
  // The service reads from the token only the user and the session.
  const hints = { isOrgAdmin: false, teamIds: [], teamAdminOf: [], tier: 'free' };
  const token = await container.accessTokens.sign({ userId, orgId, sessionId, ...hints });
  return { ...anonymous.withToken(token), refreshToken, email, password, userId, orgId };
}

/** A client that sends an API key of the member's organization. Fields are those of POST /entity/org/api-keys. */
export async function anApiKey(of: Member, scopes: readonly ApiKeyScope[], fields: object = {}) {
  const sent = { name: 'Importer', scopes, expires_at: null, ...fields };
  const key = apiKeyWithSecretSchema.parse((await of.post('/entity/org/api-keys', sent, 201)).body);
  return { ...of, ...of.withToken(key.secret), userId: key.id, key };
}

export async function aTeam(of: Member, members: readonly Member[] = []): Promise<string> {
  const { id } = teamSchema.parse((await of.post('/entity/teams', { name: `Team ${randomUUID()}` }, 201)).body);
  for (const { userId } of members) await of.put(`/entity/teams/${id}/members/${userId}`, {}, 200);
  return id;
}

export type Cast = Awaited<ReturnType<typeof aCast>>;

/** An organization with a red team, and users in every relation to what `owner` has made for that team. */
export async function aCast(stack: Stack) {
  const orgAdmin = await stack.signUp('Olga');
  // Without limits on the number of members.
  await stack.container.db('organizations').where({ id: orgAdmin.orgId }).update({ tier: 'max' });
  const redTeamId = await aTeam(orgAdmin);
  const inRed = { team_id: redTeamId };
  const join = (fields = {}) => aColleague(stack, orgAdmin, 'Grace', fields);
  const disabled = await join(inRed);
  await orgAdmin.post(`/entity/users/${disabled.userId}/disable`, undefined, 204);
  return {
    owner: await join(inRed),
    sameTeam: await join(inRed),
    sameOrganization: await join(),
    teamAdmin: await join({ ...inRed, is_team_admin: true }),
    orgAdmin,
    otherOrganization: await stack.signUp('Otto'),
    disabled,
    anonymous: stack.anonymous,
    redTeamId,
  };
}

export const treesOf = async (member: Member) =>
  folderTreeNodeSchema.array().parse((await member.get('/folders', 200)).body);

/** For `team_root`, returns the root of the first team of the member. */
export async function rootOf(member: Member, role: 'org_root' | 'team_root' | 'personal_root'): Promise<string> {
  const root = (await treesOf(member)).find((folder) => folder.system_role === role);
  if (root === undefined) throw new Error(`no ${role}`);
  return root.id;
}

export const aFolder = async (member: Member, parentId: string, name: string = randomUUID()): Promise<FolderDto> =>
  folderSchema.parse((await member.post('/folders', { name, parent_id: parentId }, 201)).body);

/** Uploads a text file and does not ingest it. @returns its id */
export async function aDocumentIn(member: Member, folderId: string, name = 'note.txt'): Promise<string> {
  const file = { name, content: `Some words of ${name}.` };
  return (await anUpload(member, file, { ingest: 'false', target_folder_id: folderId })).id;
}

type Form = { name: string; content: string | Uint8Array<ArrayBuffer>; type?: string };

/** Uploads a file, which is ingested unless the form says otherwise. */
export const anUpload = async (client: ApiClient, file: Form, fields: Record<string, string> = {}) =>
  fullDocumentSchema.parse((await client.upload('/documents', file, 201, { fields })).body);

export const readDocument = async (client: ApiClient, id: string) =>
  fullDocumentSchema.parse((await client.get(`/documents/${id}`, 200)).body);

export async function replaceOriginal(client: ApiClient, id: string, file: Form, fields: Record<string, string> = {}) {
  const form = { method: 'PATCH', fields } as const;
  return fullDocumentSchema.parse((await client.upload(`/documents/${id}`, file, 200, form)).body);
}

export const clerk = { agent_name: 'Clerk', agent_prompt: 'Answer briefly.', anchor_words: { tax: 5 } };

export const aDraft = async (client: ApiClient, body: object = clerk) =>
  draftDetailSchema.parse((await client.post('/agent-drafts', body, 201)).body);

export const readDraft = async (client: ApiClient, draftId: string) =>
  draftDetailSchema.parse((await client.get(`/agent-drafts/${draftId}`, 200)).body);

export async function commitVersion(client: ApiClient, draftId: string, body: object) {
  const reply = await client.post(`/agent-drafts/${draftId}/versions`, body, 201);
  return committedDraftVersionSchema.parse(reply.body).version;
}

/** A draft with this number of versions, each based on the one before. */
export async function aDraftWithVersions(client: ApiClient, length: number, body: object = clerk) {
  const { id, head_version_id } = await aDraft(client, body);
  let parent_version_id = head_version_id;
  for (let done = 1; done < length; done += 1) {
    parent_version_id = (await commitVersion(client, id, { parent_version_id })).id;
  }
  return readDraft(client, id);
}

type PublishedDraft = { id: string; head_version_id: string };

/** An agent of the head, or of the version that the body names. */
export async function anAgentOfDraft(
  client: ApiClient,
  draft: PublishedDraft,
  body: object = {},
): Promise<PublishedAgentDto> {
  const sent = { version_id: draft.head_version_id, ...body };
  return publishedAgentSchema.parse((await client.post(`/agent-drafts/${draft.id}/publish`, sent, 201)).body);
}

/** An agent whose candidates for anchor words are complete, so that it changes only when a user changes it. */
export async function aSettledAgentOfDraft(client: ApiClient, draft: PublishedDraft, body?: object): Promise<AgentDto> {
  const { id } = await anAgentOfDraft(client, draft, body);
  await untilJob(client, anchorWordsWorkflowId(id), 'succeeded');
  return agentSchema.parse((await client.get(`/agents/${id}`, 200)).body);
}

export type ChatMessage = z.output<typeof chatMessageSchema>;

const moneyAnchors = { credit: 3, bank: 2, repayment: 3, 'monthly payment': 3 };
export const loanAnchors = { loan: 5, mortgage: 5, 'interest rate': 4, collateral: 2, ...moneyAnchors };

/** Publishes an agent that talks about loans. @returns its id */
export async function aPublishedAgent(client: ApiClient, fields: Record<string, unknown> = {}): Promise<string> {
  const body = { agent_name: 'Loans', agent_prompt: 'You help the customers of a bank with their loans.' };
  const draft = await aDraft(client, { ...body, anchor_words: loanAnchors, ...fields });
  return (await anAgentOfDraft(client, draft)).id;
}

/** Makes a document of a text and waits until its chunks can be found. */
export async function anIngestedDocument(client: ApiClient, name: string, content: string, fields: object = {}) {
  const sent = { name, content, source_format: 'markdown', ...fields };
  const { body } = await client.post('/documents/paste', sent, 201);
  const { id, embedding_job_id } = body as { id: string; embedding_job_id: string };
  await untilRun(client, embedding_job_id, 'succeeded');
  return id;
}

export const ask = async (client: ApiClient, body: object, status: 200 | 201, headers = {}): Promise<ChatMessage> =>
  chatMessageSchema.parse((await client.post('/chat', body, status, headers)).body);

export async function openChatStream(
  member: Pick<Member, 'raw'>,
  body: Record<string, unknown>,
  init: RequestInit = {},
): Promise<AsyncIterableIterator<StreamEvent>> {
  const headers = { 'content-type': 'application/json', ...init.headers };
  const request = { method: 'POST', body: JSON.stringify(body), ...init, headers };
  const response = await member.raw('/chat/stream', request);
  expect(response.status).equal(200);
  expect(response.headers.get('content-type')).match(/^text\/event-stream/);
  return readEvents(response, chatEventSchema);
}

/** Streams an answer to its end: the events, the text of its tokens, and the answer that the last event has. */
export async function streamAnswer(member: Pick<Member, 'raw'>, body: Record<string, unknown>, init?: RequestInit) {
  const events = await collect(await openChatStream(member, body, init));
  const tokens = events.map(({ event, data }) => (event === 'token' ? (data as { t: string }).t : '')).join('');
  return { events, tokens, answer: chatMessageSchema.parse(events.at(-1)?.data) };
}

export type EvaluationDto = z.infer<typeof evaluationResultSchema>;

export type Evaluable = { draft_id: string; version_id: string };

export const persona = 'You are Lena. You help with loans, in one sentence.';

export async function anEvaluableVersion(client: ApiClient, fields: object = {}): Promise<Evaluable> {
  const draft = await aDraft(client, { agent_name: 'Lena', agent_prompt: persona, tags: ['loans'], ...fields });
  return { draft_id: draft.id, version_id: draft.head_version_id };
}

export async function twoEvaluableVersions(client: ApiClient, fields: object = {}): Promise<[Evaluable, Evaluable]> {
  const parent = await anEvaluableVersion(client);
  const { draft_id, version_id: parent_version_id } = parent;
  const sent = { parent_version_id, agent_prompt: `${persona} Be brief.`, ...fields };
  return [{ draft_id, version_id: (await commitVersion(client, draft_id, sent)).id }, parent];
}

export const evaluate = async (client: ApiClient, body: object): Promise<EvaluationDto> =>
  evaluationResultSchema.parse((await client.post('/agent-eval/evaluate', body, 200)).body);

/** Compares a version, with itself unless the body names a baseline. @returns the id of the comparison */
export async function aComparison(client: ApiClient, of: Evaluable, body: object = {}): Promise<string> {
  await client.post('/agent-eval/compare', { ...of, baseline_version_id: of.version_id, ...body }, 200);
  const { items } = await listComparisons(client, `?version_id=${of.version_id}`);
  if (items[0] === undefined) throw new Error(`version ${of.version_id} has no comparison`);
  return items[0].id;
}

export const listComparisons = async (client: ApiClient, query = '') =>
  comparisonListSchema.parse((await client.get(`/agent-eval/comparisons${query}`, 200)).body);

export const startPath = ({ draft_id, version_id }: Evaluable): string =>
  `/agent-drafts/${draft_id}/versions/${version_id}/eval/start`;

export async function readVersion(client: ApiClient, { draft_id, version_id }: Evaluable) {
  const version = (await readDraft(client, draft_id)).versions.find(({ id }) => id === version_id);
  if (version === undefined) throw new Error(`draft ${draft_id} has no version ${version_id}`);
  return version;
}

/** Stores a connection of the member to a bucket at an address without a server. @returns its id */
export async function aStoredConnection({ container }: Pick<Stack, 'container'>, member: Member, displayName: string) {
  const { orgId, userId } = member;
  const id = uuidv7();
  const keys = { kind: 'keys', accessKeyId: 'key', secretAccessKey: 'secret', sessionToken: null } as const;
  const account = { provider: 'acme_s3', status: 'active', accountId: id, scopes: [] };
  const config = { bucket: 'reports', endpoint: 'http://127.0.0.1:1' };
  const credentials = container.storedConnections.encrypt({ orgId, id }, keys);
  await container.db('connections').insert({ id, orgId, userId, displayName, ...account, config, credentials });
  return id;
}
