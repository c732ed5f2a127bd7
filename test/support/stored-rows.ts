// Rows that tests write where the API cannot, or not as fast.
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { accessKeysOfRow, type Visibility } from '#src/domain/access/visibility.ts';
import type { Member } from './client.ts';
import type { Stack } from './stack.ts';

export type LoggedBy = { orgId: string; createdBy: string; agentId: string };

export async function addAgent(db: Knex, { orgId, createdBy, agentId }: LoggedBy, name = 'Loans'): Promise<void> {
  const persona = { agentName: name, agentPrompt: 'Be brief.', tags: [], enabledTools: [], anchorWords: '{}' };
  const model = { chatModel: 'any', temperature: 0, maxTokens: 100 };
  const streaks = { userOffTopicStreakThreshold: 3, userOnTopicStreakThreshold: 2 };
  const access = { orgId, createdBy, visibility: 'org_level', acl: [`org:${orgId}`] };
  const source = { sourceDraftId: uuidv7(), sourceVersionId: uuidv7() };
  await db('agents').insert({ id: agentId, ...persona, ...model, ...streaks, ...access, ...source });
}

export async function addChat(
  db: Knex,
  { orgId, createdBy, agentId }: LoggedBy,
  options: { visibility?: Visibility; teamIds?: string[]; startedAt?: Date; title?: string; id?: string } = {},
): Promise<string> {
  const { visibility = 'personal', teamIds = [], startedAt = new Date(), title = 'A loan', id = uuidv7() } = options;
  const acl = accessKeysOfRow({ orgId, createdBy, visibility, teamIds });
  const chat = { id, agentId, title, titleSource: 'user', ragEnabled: false };
  const access = { orgId, createdBy, visibility, teamIds, acl };
  await db('chats').insert({ ...chat, ...access, createdAt: startedAt, updatedAt: startedAt });
  return id;
}

/** The next round of a chat, with its answer unless told otherwise. */
export async function addRound(
  db: Knex,
  { orgId, chatId, round }: { orgId: string; chatId: string; round: number },
  columns: Record<string, unknown> = {},
): Promise<void> {
  const asked = { status: 'complete', userContent: 'How is a loan repaid?', model: 'any' };
  const answer = { assistantReply: 'Month by month.', finishedAt: new Date() };
  const usage = { inputTokens: 10, completionTokens: 5, latencyMs: 100, costUsd: 0.0001 };
  await db('chats').where({ id: chatId }).update({ roundCount: round });
  await db('rounds').insert({ orgId, chatId, round, ...asked, ...answer, ...usage, ...columns });
}

/** A prompt without a draft that a member has had judged, as its run leaves it. @returns the id of the run */
export async function storeEvaluation(db: Knex, { orgId, userId }: Member): Promise<string> {
  const cacheKey = Buffer.from(crypto.randomUUID());
  const id = `evaluate-${userId}`;
  const score = { axis: 'role_clarity', rationale: 'Said.', score: 3 };
  const rubric = { rubric: 'plain', rubricVersion: 'r1', judgesPrompt: true, cases: [], draw: null };
  const models = { evaluatorModel: 'judge', generationModel: 'model' };
  const subject = { kind: 'prompt', userId, agentName: 'Lena', agentPrompt: 'Help.', tags: [] };
  const promptScores = [{ ...score, label: 'Role & purpose', weakness: '' }];
  const averages = { promptAverage: 3, responseAverage: 0, overallAverage: 3 };
  await db('evaluationRuns').insert({
    id,
    orgId,
    createdBy: userId,
    acl: [`user:${userId}`],
    estimatedCalls: 1,
    finishedAt: new Date(),
    specification: JSON.stringify({ kind: 'evaluate', ...rubric, ...models, subject }),
    results: JSON.stringify({ kind: 'evaluate', promptScores, cases: [], ...averages }),
  });
  const verdict = JSON.stringify({ mode: 'plain', scores: [score] });
  const usage = { inputTokens: 1, cachedInputTokens: 0, completionTokens: 1 };
  await db('judgements').insert({ orgId, cacheKey, model: 'judge', verdict, ...usage });
  await db('evaluationUnits').insert({ orgId, runId: id, unit: 'prompt', cacheKey });
  await db('evaluationDays').insert({ orgId, day: '2026-01-01', cases: 1 }).onConflict().ignore();
  return id;
}

type AuditRow = { actorId: string; action: string; target: string; detail: Record<string, unknown> };

/** What is recorded of acts on a user, a team or an organization, oldest first. */
export async function auditEntries({ container }: Stack, target: string): Promise<AuditRow[]> {
  return container.db('auditLog').where({ target }).orderBy('id').select('actorId', 'action', 'target', 'detail');
}
