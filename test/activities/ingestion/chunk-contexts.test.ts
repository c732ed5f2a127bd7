import { expect } from 'chai';
import type { Knex } from 'knex';
import { createIngestionActivities, type IngestionActivities } from '#activities/ingestion.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { chunkPreviewsSchema } from '#src/modules/rag/rag.schema.ts';
import { runActivity } from '#test/support/activity-environment.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const sections = ['Leave', 'Travel', 'Loans', 'Office'];
const body = sections.map((name) => `# ${name}\n\n${`The rule of ${name} is short. `.repeat(3).trim()}`).join('\n\n');

describe('chunk contexts', () => {
  let own: Stack;
  let model: ScriptedModel;
  let ada: Member;
  let db: Knex;
  let activities: IngestionActivities;

  before(async () => {
    model = await startScriptedModel();
    const settings = { OPENAI_BASE_URL: model.baseUrl, CONTEXTUAL_MODEL: 'scripted' };
    own = await startStack(settings, { workers: false });
    ada = await own.signUp();
    db = own.container.db;
    activities = createIngestionActivities(own.container);
  });
  after(async () => {
    await own.close();
    await model.close();
  });

  /** Names the passage of the prompt. */
  const answer = (text: string) => `Of the handbook, on ${/passage>>\n# (\w+)/.exec(text)?.[1]}.`;
  beforeEach(() => {
    model.behave(({ messages }) => ({ kind: 'answer', text: answer(messages.at(-1)?.content ?? '') }));
  });

  async function upload(content: string, as = ada): Promise<IngestDocumentInput> {
    const fields = { target_tokens: '30', overlap_tokens: '0' };
    const { body } = await as.upload('/documents', { name: 'handbook.md', content }, 201, { fields });
    return { orgId: as.orgId, documentId: fullDocumentSchema.parse(body).id, generation: 1 };
  }

  const run = <Name extends keyof IngestionActivities>(name: Name, of: IngestDocumentInput) =>
    runActivity(activities[name] as (input: IngestDocumentInput) => Promise<unknown>, of);

  async function convert(of: IngestDocumentInput): Promise<void> {
    await run('parseDocument', of);
    expect(await run('convertDocument', of)).include({ needsContexts: true });
  }
  async function finish(of: IngestDocumentInput): Promise<void> {
    for (const name of ['chunkDocument', 'embedChunks', 'activateGeneration'] as const) await run(name, of);
  }
  const chunksOf = async ({ documentId }: IngestDocumentInput) =>
    chunkListSchema.parse((await ada.get(`/documents/${documentId}/chunks`, 200)).body).items;
  const contextsOf = async (of: IngestDocumentInput) => (await chunksOf(of)).map((chunk) => chunk.contextual_text);
  async function keptOf({ documentId }: IngestDocumentInput) {
    const { conversionId } = await db('documentGenerations').where({ documentId }).first('conversionId');
    return db('contextualTexts').where({ conversionId });
  }
  const expected = sections.map((name) => `handbook.md › ${name} (page 1)\nOf the handbook, on ${name}.`);

  it('embeds each chunk with its context, and asks the model once per chunk', async () => {
    const of = await upload(body);
    await convert(of);
    expect(await run('situateChunks', of)).deep.equal({ chunksSituated: 4, chunksLeft: 0 });
    expect(model.requests).length(4);
    const [system, user] = model.requests[0]?.messages ?? [];
    expect(system?.role).equal('system');
    expect(user?.content).include(body);

    await run('situateChunks', of);
    await finish(of);
    expect(await contextsOf(of)).deep.equal(expected);
    const embedded = model.calls.flatMap(({ path, body }) =>
      path === '/embeddings' ? (body as { input: string[] }).input : [],
    );
    expect(embedded).include(`${expected[0]}\n${(await chunksOf(of))[0]?.content}`);

    await ada.post(`/rag/ingest/${of.documentId}`, { redo: true }, 200);
    const again = { ...of, generation: 2 };
    await convert(again);
    expect(await run('situateChunks', again)).deep.equal({ chunksSituated: 4, chunksLeft: 0 });
    await finish(again);
    expect(await contextsOf(again)).deep.equal(expected);
    expect(model.requests).length(4);
  });

  it('asks once for chunks of equal text, with the surroundings of the first', async () => {
    const same = `# Same\n\n${'The rule of Same is short. '.repeat(3).trim()}`;
    const part = (index: number) => `Line ${index} of the part is as long as the others. `.repeat(400).trim();
    const of = await upload([same, part(1), part(2), part(3), part(4), same, part(5)].join('\n\n'));
    await convert(of);
    await run('situateChunks', of);
    const asked = model.requests.flatMap(({ messages }) => messages.at(-1)?.content ?? []);
    const prompts = asked.filter((text) => /passage>>\n# Same/.test(text));
    expect(prompts).length(1);
    expect(prompts[0]).include('Line 1 of').not.include('Line 4 of');
  });

  it('shows stored contexts in a preview without asking the model', async () => {
    const of = await upload(`${body}\n\nAn end.`);
    await convert(of);
    const preview = async () => {
      const { body } = await ada.post(`/rag/documents/${of.documentId}/chunks/preview`, {}, 200);
      return chunkPreviewsSchema.parse(body).chunks.map((chunk) => chunk.contextual_text);
    };
    expect(new Set(await preview())).deep.equal(new Set([null]));
    expect(model.requests).length(0);
    await run('situateChunks', of);
    await finish(of);
    expect(await preview()).deep.equal(await contextsOf(of));
  });

  it('keeps the answers of a slice in which one call failed, and asks only for the rest', async () => {
    const of = await upload(`${body}\n\n# Pets\n\n${'The rule of Pets is short. '.repeat(3)}`);
    await convert(of);
    model.behave(({ messages }) => {
      const text = messages.at(-1)?.content ?? '';
      return text.includes('passage>>\n# Loans')
        ? { kind: 'status', status: 503 }
        : { kind: 'answer', text: answer(text) };
    });
    expect(await appErrorCode(run('situateChunks', of))).equal('model_unavailable');
    expect(await keptOf(of)).length(4);
    model.behave(() => ({ kind: 'answer', text: 'At last.' }));
    expect(await run('situateChunks', of)).deep.equal({ chunksSituated: 5, chunksLeft: 0 });
    expect(model.requests).length(1);
    expect(model.requests[0]?.messages.at(-1)?.content).include('passage>>\n# Loans');
  });

  it('fails with model_not_configured, which parks the run, when the model rejects the key', async () => {
    const of = await upload('A short text.');
    await convert(of);
    model.behave(() => ({ kind: 'status', status: 401 }));
    expect(await appErrorCode(run('situateChunks', of))).equal('model_not_configured');
  });

  it('uses only name, headings and page when no context was requested or the answer is empty', async () => {
    const of = await upload('A text of a run that began before.');
    await convert(of);
    await finish(of);
    expect(await contextsOf(of)).deep.equal(['handbook.md (page 1)']);
    const silent = await upload('A text of which there is nothing to say.');
    await convert(silent);
    model.behave(() => ({ kind: 'answer', text: '" "' }));
    await run('situateChunks', silent);
    await finish(silent);
    expect(await contextsOf(silent)).deep.equal(['handbook.md (page 1)']);
  });

  it('shares no contexts between organizations', async () => {
    const eve = await own.signUp('Eve');
    const of = await upload(body, eve);
    await convert(of);
    await run('situateChunks', of);
    expect(model.requests).length(4);
  });

  it('deletes contexts a day after their last chunk, and at once with their document', async () => {
    const of = await upload('# Leave\n\nOne rule of its own.\n\n# Travel\n\nAnother rule of its own.');
    await convert(of);
    await run('situateChunks', of);
    const kept = await keptOf(of);
    expect(kept).length.above(0);
    await db('contextualTexts').insert({ ...kept[0], chunkSha256: Buffer.alloc(32) });
    const { conversionId } = kept[0];
    await db('contextualTexts')
      .where({ conversionId })
      .update({ createdAt: db.raw(`now() - interval '25 hours'`) });
    const sweep = async () => {
      for (let after = null; ; ) {
        after = await own.container.chunkContexts.sweepUnused(after);
        if (after === null) return;
      }
    };
    await sweep();
    expect(await keptOf(of), 'before the generation is chunked').length(kept.length + 1);
    await finish(of);
    await sweep();
    expect(await keptOf(of), 'after it is chunked').length(kept.length);

    await ada.delete(`/documents/${of.documentId}`, 204);
    const { deletion } = own.container;
    await deletion.deleteVectors(of);
    await deletion.deleteChunks(of, new AbortController().signal);
    await deletion.deleteOriginal(of);
    await deletion.forgetDocument(of);
    expect(await db('contextualTexts').where({ conversionId })).length(0);
  });
});
