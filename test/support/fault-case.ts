import { expect } from 'chai';
import { anUpload } from './builders.ts';
import { type ServiceProcess, startWorkerProcess } from './child-processes.ts';
import type { ApiClient } from './client.ts';
import { startScriptedModel } from './scripted-model.ts';
import { type Stack, startStack } from './stack.ts';
import { until } from './until.ts';

export type FaultCase = Awaited<ReturnType<typeof startFaultCase>>;

/** A service of its own whose worker is another process, and whose model calls are recorded. */
export async function startFaultCase(settings: Record<string, string> = {}) {
  const model = await startScriptedModel();
  // The second worker finds the schedule that the first has made.
  const stack = await startStack({ ...model.settings, ...settings }, { workers: false, schedules: true });
  const workers: Promise<ServiceProcess>[] = [];
  return {
    stack,
    model,
    member: await stack.signUp(),
    /** Starts a worker that ends with the case. */
    startWorker: (changes: Record<string, string> = {}) => {
      const worker = startWorkerProcess(stack, changes);
      workers.push(worker);
      return worker;
    },
    close: async () => {
      for (const started of await Promise.allSettled(workers))
        if (started.status === 'fulfilled') await started.value.stop();
      await stack.close();
      await model.close();
    },
  };
}

/** Uploads a text file. @returns its id and the id of its first run */
export async function uploadText(member: ApiClient, content: string, fields: Record<string, string> = {}) {
  const { id } = await anUpload(member, { name: 'note.txt', content }, fields);
  return { documentId: id, jobId: `ingest-${id}-1` };
}

/** Waits until every invariant holds, and fails with the violations that remain. */
export async function expectInvariants(stack: Pick<Stack, 'container'>): Promise<void> {
  const { invariants } = stack.container;
  const grace = { orphanSeconds: 0, reconcileSeconds: 0, dispatchSeconds: 0, erasureSeconds: 0 };
  // Work after a response, such as deleting a file, may still be running.
  await until('every invariant holds', async () => (await invariants.check(grace)).length === 0).catch(async () =>
    expect(await invariants.check(grace)).deep.equal([]),
  );
}
