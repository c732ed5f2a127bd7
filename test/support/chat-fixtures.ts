import { expect } from 'chai';
import type { z } from 'zod';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import type { ApiClient, Member } from './client.ts';
import { readEvents, type StreamEvent } from './event-stream.ts';
import { untilRun } from './until-job.ts';

export type ChatMessage = z.output<typeof chatMessageSchema>;

export const loanAnchors = {
  loan: 5,
  mortgage: 5,
  'interest rate': 4,
  repayment: 3,
  'monthly payment': 3,
  credit: 3,
  bank: 2,
  collateral: 2,
};

/** Publishes an agent that talks about loans, and answers its id. */
export async function publishAgent(client: ApiClient, fields: Record<string, unknown> = {}): Promise<string> {
  const draft = (
    await client.post(
      '/agent-drafts',
      {
        agent_name: 'Loans',
        agent_prompt: 'You help the customers of a bank with their loans.',
        anchor_words: loanAnchors,
        ...fields,
      },
      201,
    )
  ).body as { id: string; head_version_id: string };
  const published = await client.post(`/agent-drafts/${draft.id}/publish`, { version_id: draft.head_version_id }, 201);
  return (published.body as { id: string }).id;
}

/** Makes a document of a text and waits until its chunks can be found. */
export async function ingestText(
  client: ApiClient,
  name: string,
  content: string,
  fields: object = {},
): Promise<string> {
  const sent = { name, content, source_format: 'markdown', ...fields };
  const { body } = await client.post('/documents/paste', sent, 201);
  const { id, embedding_job_id } = body as { id: string; embedding_job_id: string };
  await untilRun(client, embedding_job_id, 'succeeded');
  return id;
}

export async function ask(
  client: ApiClient,
  body: Record<string, unknown>,
  expectedStatus: 200 | 201,
  headers: Record<string, string> = {},
): Promise<ChatMessage> {
  return chatMessageSchema.parse((await client.post('/chat', body, expectedStatus, headers)).body);
}

/** Opens a stream; the events are read one by one. */
export async function openChatStream(
  member: Pick<Member, 'raw'>,
  body: Record<string, unknown>,
  init: RequestInit = {},
): Promise<AsyncIterableIterator<StreamEvent>> {
  const response = await member.raw('/chat/stream', {
    method: 'POST',
    body: JSON.stringify(body),
    ...init,
    headers: { 'content-type': 'application/json', ...init.headers },
  });
  expect(response.status).equal(200);
  expect(response.headers.get('content-type')).match(/^text\/event-stream/);
  return readEvents(response);
}
