import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { createIngestionActivities, type IngestionActivities } from '#activities/ingestion.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { createGenerationsRepository } from '#src/modules/ingestion/generations.repository.ts';
import { anUpload } from './builders.ts';
import type { Member } from './client.ts';
import type { Stack } from './stack.ts';

export function runActivity<Input, Result>(activity: (input: Input) => Promise<Result>, input: Input): Promise<Result> {
  return activityEnvironment().run<[Input], Result, typeof activity>(activity, input);
}

/** For tests that cancel an activity, listen to its heartbeats or count its attempts. */
export const activityEnvironment = (info: { attempt?: number } = {}): MockActivityEnvironment =>
  new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR') });

const untilConverted = ['parseDocument', 'convertDocument', 'embedWindows'] as const;
export const untilChunked = [...untilConverted, 'chunkDocument'] as const;
export const untilEmbedded = [...untilChunked, 'embedChunks'] as const;
export const ingestionSteps = [...untilEmbedded, 'activateGeneration'] as const;

export type IngestionStep = (typeof ingestionSteps)[number] | 'situateChunks';

export const sentences = (count: number, word = 'number') =>
  Array.from({ length: count }, (_, index) => `Sentence ${word} ${index} says something.`).join(' ');

/** Uploads a file whose chunks have 12 tokens, unless the fields say otherwise. */
export async function uploadFile(
  member: Member,
  content: string | Uint8Array<ArrayBuffer>,
  { name = 'note.txt', ...fields }: Record<string, string> = {},
): Promise<IngestDocumentInput> {
  const { id } = await anUpload(member, { name, content }, { target_tokens: '12', overlap_tokens: '0', ...fields });
  return { orgId: member.orgId, documentId: id, generation: 1 };
}

/** Runs the activities of an ingestion in place of a worker. The stack may start later. */
export function ingestionOn(stack: Pick<Stack, 'container'>) {
  const run = (name: IngestionStep, of: IngestDocumentInput, environment = activityEnvironment()) => {
    const step = createIngestionActivities(stack.container)[name];
    return environment.run<[IngestDocumentInput], unknown, IngestionActivities[IngestionStep]>(step, of);
  };

  async function runAll(of: IngestDocumentInput, names: readonly IngestionStep[] = ingestionSteps) {
    for (const name of names) await run(name, of);
    return of;
  }

  /** Opens the next generation without starting a run. */
  async function openNext(of: IngestDocumentInput) {
    const next = { ...of, generation: of.generation + 1 };
    const jobId = ingestWorkflowId(of.documentId, next.generation);
    await createGenerationsRepository(stack.container.db).open({ ...next, jobId }, { isRedo: false });
    return next;
  }
  return { run, runAll, openNext };
}
