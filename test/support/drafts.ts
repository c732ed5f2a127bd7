import { anchoringWorkflowId } from '#src/contracts/workflow-ids.ts';
import { type AgentDto, agentSchema } from '#src/modules/agents/agents.schema.ts';
import {
  committedDraftVersionSchema,
  type DraftDto,
  type DraftVersionDto,
  draftDetailSchema,
} from '#src/modules/drafts/drafts.schema.ts';
import type { ApiClient } from './client.ts';
import { untilJob } from './until-job.ts';

/** Enough to be published. */
export const clerk = { agent_name: 'Clerk', agent_prompt: 'Answer briefly.', anchor_words: { tax: 5 } };

export async function newDraft(client: ApiClient, body: object = clerk): Promise<DraftDto> {
  return draftDetailSchema.parse((await client.post('/agent-drafts', body, 201)).body);
}

export async function readDraft(client: ApiClient, draftId: string): Promise<DraftDto> {
  return draftDetailSchema.parse((await client.get(`/agent-drafts/${draftId}`, 200)).body);
}

export async function commitVersion(client: ApiClient, draftId: string, body: object): Promise<DraftVersionDto> {
  const reply = await client.post(`/agent-drafts/${draftId}/versions`, body, 201);
  return committedDraftVersionSchema.parse(reply.body).version;
}

/** A draft with so many versions, one after the other. */
export async function newChain(client: ApiClient, length: number, body: object = clerk): Promise<DraftDto> {
  const { id, head_version_id } = await newDraft(client, body);
  let parent_version_id = head_version_id;
  for (let done = 1; done < length; done += 1) {
    parent_version_id = (await commitVersion(client, id, { parent_version_id })).id;
  }
  return readDraft(client, id);
}

/** An agent of the head, or of the version that the body names. */
export async function publishDraft(
  client: ApiClient,
  draft: Pick<DraftDto, 'id' | 'head_version_id'>,
  body: object = {},
): Promise<AgentDto> {
  const sent = { version_id: draft.head_version_id, ...body };
  return agentSchema.parse((await client.post(`/agent-drafts/${draft.id}/publish`, sent, 201)).body);
}

/** The same once it has its candidates: from then on it changes only when somebody changes it. */
export async function publishSettled(...publication: Parameters<typeof publishDraft>): Promise<AgentDto> {
  const [client] = publication;
  const { id } = await publishDraft(...publication);
  await untilJob(client, anchoringWorkflowId(id), 'succeeded');
  return agentSchema.parse((await client.get(`/agents/${id}`, 200)).body);
}
