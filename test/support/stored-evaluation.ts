import type { Knex } from 'knex';
import type { Member } from './client.ts';

const usage = { inputTokens: 1, cachedInputTokens: 0, completionTokens: 1 };

/** A prompt without a draft that a member has had judged, as its run leaves it. @returns the id of the run */
export async function storeEvaluation(db: Knex, { orgId, userId }: Member): Promise<string> {
  const cacheKey = Buffer.from(crypto.randomUUID());
  const id = `evaluate-${userId}`;
  const scores = [{ axis: 'role_clarity', rationale: 'Said.', score: 3 }];
  await db('evaluationRuns').insert({
    ...{ id, orgId, createdBy: userId, acl: [`user:${userId}`], estimatedCalls: 1, finishedAt: new Date() },
    specification: JSON.stringify({
      ...{ kind: 'evaluate', rubric: 'plain', rubricVersion: 'r1', judgesPrompt: true, cases: [], draw: null },
      ...{ evaluatorModel: 'judge', generationModel: 'model' },
      subject: { kind: 'prompt', userId, agentName: 'Lena', agentPrompt: 'Help.', tags: [] },
    }),
    results: JSON.stringify({
      kind: 'evaluate',
      promptScores: [{ axis: 'role_clarity', label: 'Role & purpose', score: 3, rationale: 'Said.', weakness: '' }],
      ...{ promptAverage: 3, cases: [], responseAverage: 0, overallAverage: 3 },
    }),
  });
  const verdict = JSON.stringify({ mode: 'plain', scores });
  await db('judgements').insert({ orgId, cacheKey, model: 'judge', verdict, ...usage });
  await db('evaluationUnits').insert({ orgId, runId: id, unit: 'prompt', cacheKey });
  await db('evaluationDays').insert({ orgId, day: '2026-01-01', cases: 1 }).onConflict().ignore();
  return id;
}
