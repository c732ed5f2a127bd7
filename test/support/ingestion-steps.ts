import type { MockActivityEnvironment } from '@temporalio/testing';
import { createIngestionActivities, type IngestionActivities } from '#activities/ingestion.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { createGenerationsRepository } from '#src/modules/ingestion/generations.repository.ts';
import { activityEnvironment } from './activity-environment.ts';
import type { Member } from './client.ts';
import type { Stack } from './stack.ts';

export const ingestionSteps = [
  ...(['parseDocument', 'convertDocument', 'embedWindows'] as const),
  ...(['chunkDocument', 'embedChunks', 'activateGeneration'] as const),
];
export const untilChunked = ingestionSteps.slice(0, 4);
export const untilEmbedded = ingestionSteps.slice(0, 5);

export type IngestionStep = (typeof ingestionSteps)[number] | 'situateChunks';

export const sentences = (count: number, word = 'number') =>
  Array.from({ length: count }, (_, index) => `Sentence ${word} ${index} says something.`).join(' ');

/** Uploads a file whose chunks have 12 tokens, unless the fields say otherwise. */
export async function uploadFile(
  member: Member,
  content: string | Uint8Array<ArrayBuffer>,
  { name = 'note.txt', ...fields }: Record<string, string> = {},
): Promise<IngestDocumentInput> {
  const form = { fields: { target_tokens: '12', overlap_tokens: '0', ...fields } };
  const { body } = await member.upload('/documents', { name, content }, 201, form);
  return { orgId: member.orgId, documentId: fullDocumentSchema.parse(body).id, generation: 1 };
}

/** Runs the activities of an ingestion in place of a worker. The stack may start later. */
export function ingestionOn(stack: Pick<Stack, 'container'>) {
  const run = (
    name: IngestionStep,
    of: IngestDocumentInput,
    environment: MockActivityEnvironment = activityEnvironment(),
  ) => {
    const step = createIngestionActivities(stack.container)[name];
    return environment.run<[IngestDocumentInput], unknown, IngestionActivities[IngestionStep]>(step, of);
  };

  async function runAll(
    of: IngestDocumentInput,
    names: readonly IngestionStep[] = ingestionSteps,
  ): Promise<IngestDocumentInput> {
    for (const name of names) await run(name, of);
    return of;
  }

  /** Opens the next generation without starting a run. */
  async function openNext(of: IngestDocumentInput): Promise<IngestDocumentInput> {
    const next = { ...of, generation: of.generation + 1 };
    const jobId = ingestWorkflowId(of.documentId, next.generation);
    await createGenerationsRepository(stack.container.db).open({ ...next, jobId }, { isRedo: false });
    return next;
  }
  return { run, runAll, openNext };
}
