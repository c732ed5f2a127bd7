import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { accessKeysOfRow, type Visibility } from '#src/domain/access/visibility.ts';

export type LoggedBy = { orgId: string; createdBy: string; agentId: string };

export async function addAgent(db: Knex, { orgId, createdBy, agentId }: LoggedBy, name = 'Loans'): Promise<void> {
  await db('agents').insert({
    ...{ id: agentId, orgId, createdBy, agentName: name, agentPrompt: 'Be brief.', tags: [], chatModel: 'any' },
    ...{ temperature: 0, maxTokens: 100, userOffTopicStreakThreshold: 3, userOnTopicStreakThreshold: 2 },
    ...{ enabledTools: [], anchorWords: '{}', visibility: 'org_level', acl: [`org:${orgId}`] },
    ...{ sourceDraftId: uuidv7(), sourceVersionId: uuidv7() },
  });
}

/** A chat without rounds. @returns its id */
export async function addChat(
  db: Knex,
  by: LoggedBy,
  options: { visibility?: Visibility; teamIds?: string[]; startedAt?: Date; title?: string; id?: string } = {},
): Promise<string> {
  const { visibility = 'personal', teamIds = [], startedAt = new Date(), title = 'A loan', id = uuidv7() } = options;
  const acl = accessKeysOfRow({ ...by, visibility, teamIds });
  await db('chats').insert({
    ...{ id, orgId: by.orgId, agentId: by.agentId, createdBy: by.createdBy, title, titleSource: 'user' },
    ...{ visibility, teamIds, acl, ragEnabled: false, createdAt: startedAt, updatedAt: startedAt },
  });
  return id;
}

/** The next round of a chat, with its answer unless told otherwise. */
export async function addRound(
  db: Knex,
  { orgId, chatId, round }: { orgId: string; chatId: string; round: number },
  columns: Record<string, unknown> = {},
): Promise<void> {
  const answer = { assistantReply: 'Month by month.', inputTokens: 10, completionTokens: 5, latencyMs: 100 };
  await db('chats').where({ id: chatId }).update({ roundCount: round });
  await db('rounds').insert({
    ...{ orgId, chatId, round, status: 'complete', userContent: 'How is a loan repaid?', model: 'any', ...answer },
    ...{ finishedAt: new Date(), costUsd: 0.0001, ...columns },
  });
}
