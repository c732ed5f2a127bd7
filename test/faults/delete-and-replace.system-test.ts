import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { type IngestionStage, ingestionStages } from '#src/contracts/ingestion.ts';
import { deletionWorkflowId, ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import type { Member } from '#test/support/client.ts';
import { remainsOf, tracesOf } from '#test/support/remains.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';
import { startedSteps, untilClosed } from '#test/support/workflow-run.ts';

/** Those of a deployment without a model that situates chunks. */
type Stage = Exclude<IngestionStage, 'situate'>;
const stages = ingestionStages.filter((stage) => stage !== 'situate');

const activityOf: Record<Stage, string> = {
  parse: 'parseDocument',
  convert: 'convertDocument',
  chunk: 'chunkDocument',
  embed: 'embedChunks',
  activate: 'activateGeneration',
};

type Case = { position: 'before' | 'after_effect'; stage: Stage };

/** Of those in a group the first runs hang at the same time: together they leave one of a small worker's four places. */
const groups: Case[][] = [
  ['before parse', 'before convert', 'before chunk'],
  ['before embed', 'before activate', 'after_effect parse'],
  // After its effect an activation is over, whatever becomes of the run.
  ['after_effect convert', 'after_effect chunk', 'after_effect embed'],
].map((group) => group.map((name) => name.split(' ')).map(([position, stage]) => ({ position, stage }) as Case));

/** Lets the first run of each document hang where its case says; a second run of it, if there is one, ends well. */
function hangs({ withSecondRuns }: { withSecondRuns: boolean }): string {
  const executions = new Map<Stage, number>();
  const execute = (reached: readonly Stage[]) => {
    for (const stage of reached) executions.set(stage, (executions.get(stage) ?? 0) + 1);
  };
  const faults: string[] = [];
  for (const group of groups) {
    for (const { position, stage } of group) {
      execute(stages.slice(0, stages.indexOf(stage) + 1));
      faults.push(`${activityOf[stage]}:${position}:hang:${executions.get(stage)}`);
    }
    if (withSecondRuns) for (const _ of group) execute(stages);
  }
  return faults.join();
}

describe('while an ingestion is under way', function () {
  this.timeout(120_000);
  let own: Stack;
  let ada: Member;
  afterEach(() => own.close());

  async function start(runs: { withSecondRuns: boolean }): Promise<void> {
    own = await startStack({ NODE_ENV: 'test', FAULTS: hangs(runs) });
    ada = await own.signUp();
  }

  /** Enough of them to have each step taken by itself. */
  const sentences = (word: string) =>
    Array.from({ length: 100 }, (_, index) => `Sentence ${word} ${index} says something.`).join(' ');

  async function upload(content: string): Promise<string> {
    const form = { fields: { target_tokens: '12', overlap_tokens: '0' } };
    const { body } = await ada.upload('/documents', { name: 'note.txt', content }, 201, form);
    return fullDocumentSchema.parse(body).id;
  }

  /** What a step leaves when it has done its work. */
  async function hasEffect(documentId: string, stage: Stage): Promise<boolean> {
    const made = await own.container.db('documentGenerations').where({ documentId, generation: 1 }).first();
    switch (stage) {
      case 'parse':
        return made.sourceFormat !== null;
      case 'convert':
        return made.conversionId !== null;
      case 'chunk':
        return made.chunkedAt !== null;
      case 'embed':
        return made.chunksEmbedded === made.chunksTotal;
      case 'activate':
        return made.activatedAt !== null;
    }
  }

  async function untilHanging(documentId: string, { stage, position }: Case): Promise<void> {
    const run = own.container.temporal.client.workflow.getHandle(ingestWorkflowId(documentId, 1));
    await until(`${stage} hangs`, async () => {
      const isThere = (await startedSteps(run)).includes(activityOf[stage]);
      return isThere && (position === 'before' || (await hasEffect(documentId, stage)));
    });
  }

  /** In turn, so that each hangs where it should. */
  async function uploadHanging(group: readonly Case[]): Promise<(Case & { id: string; name: string })[]> {
    const documents = [];
    for (const of of group) {
      const name = `${of.position} ${of.stage}`;
      const id = await upload(sentences(`old ${name}`));
      await untilHanging(id, of);
      documents.push({ ...of, id, name });
    }
    return documents;
  }

  async function expectDeleted({ id, name }: { id: string; name: string }): Promise<void> {
    const traces = await tracesOf(own, id);
    await ada.delete(`/documents/${id}`, 204);
    await untilJob(ada, deletionWorkflowId(id), 'succeeded');
    expect(await remainsOf(own, traces), name).deep.equal([]);
    const run = ingestWorkflowId(id, 1);
    expect(await own.container.db('jobs').where({ id: run }).first(), name).include({ status: 'cancelled' });
    expect(await untilClosed(own.container, run), name).equal('cancelled');
  }

  async function expectReplaced({ id, name }: { id: string; name: string }): Promise<void> {
    const { db } = own.container;
    const file = { name: 'newer.txt', content: sentences(`new ${name}`) };
    await ada.upload(`/documents/${id}`, file, 200, { method: 'PATCH' });
    await untilJob(ada, ingestWorkflowId(id, 2), 'succeeded');
    const old = await until('the old run is over', async () => {
      const job = await db('jobs')
        .where({ id: ingestWorkflowId(id, 1) })
        .first();
      return job.finishedAt !== null && job;
    });
    expect(old, name).include({ status: 'cancelled', errorCode: 'superseded' });
    const { items } = chunkListSchema.parse((await ada.get(`/documents/${id}/chunks`, 200)).body);
    expect(
      items.map((chunk) => chunk.chunk_index),
      name,
    ).deep.equal(items.map((_, at) => at));
    for (const chunk of items) expect(chunk.content, name).include(`new ${name}`);
    const points = await db('chunkVectors').where({ documentId: id });
    expect(
      points.map((point) => point.generation),
      name,
    ).deep.equal(items.map(() => 2));
  }

  it('a deletion at every stage leaves no row, point or blob', async () => {
    await start({ withSecondRuns: false });
    for (const group of groups) await Promise.all((await uploadHanging(group)).map(expectDeleted));
  });

  it('a new original at every stage wins, and nothing of the old one stays', async () => {
    await start({ withSecondRuns: true });
    for (const group of groups) await Promise.all((await uploadHanging(group)).map(expectReplaced));
    const blobs = await readdir(join(own.config.dataDir, 'blobs/objects', ada.orgId));
    const originals: { blobKey: string }[] = await own.container.db('documents').where({ orgId: ada.orgId });
    expect(blobs.map((name) => `${ada.orgId}/${name}`)).have.members(originals.map(({ blobKey }) => blobKey));
  });
});
