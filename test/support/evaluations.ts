import type { z } from 'zod';
import type { DraftVersionDto } from '#src/modules/drafts/drafts.schema.ts';
import { evaluationResultSchema } from '#src/modules/evaluations/evaluations.schema.ts';
import type { ApiClient } from './client.ts';
import { commitVersion, newDraft, readDraft } from './drafts.ts';

export type EvaluationDto = z.infer<typeof evaluationResultSchema>;

export type Evaluable = { draft_id: string; version_id: string };

export const persona = 'You are Lena. You help with loans, in one sentence.';

/** A draft with one version. */
export async function newEvaluable(client: ApiClient, fields: object = {}): Promise<Evaluable> {
  const draft = await newDraft(client, { agent_name: 'Lena', agent_prompt: persona, tags: ['loans'], ...fields });
  return { draft_id: draft.id, version_id: draft.head_version_id };
}

/** A draft with two versions: the second, and the first. */
export async function newPair(
  client: ApiClient,
  fields: object = {},
): Promise<[version: Evaluable, parent: Evaluable]> {
  const parent = await newEvaluable(client);
  const { draft_id, version_id: parent_version_id } = parent;
  const sent = { parent_version_id, agent_prompt: `${persona} Be brief.`, ...fields };
  return [{ draft_id, version_id: (await commitVersion(client, draft_id, sent)).id }, parent];
}

export async function evaluate(client: ApiClient, body: object): Promise<EvaluationDto> {
  return evaluationResultSchema.parse((await client.post('/agent-eval/evaluate', body, 200)).body);
}

export const startPath = ({ draft_id, version_id }: Evaluable): string =>
  `/agent-drafts/${draft_id}/versions/${version_id}/eval/start`;

export async function readVersion(client: ApiClient, { draft_id, version_id }: Evaluable): Promise<DraftVersionDto> {
  const version = (await readDraft(client, draft_id)).versions.find(({ id }) => id === version_id);
  if (version === undefined) throw new Error(`draft ${draft_id} has no version ${version_id}`);
  return version;
}
