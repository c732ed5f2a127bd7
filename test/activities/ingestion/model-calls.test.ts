import { expect } from 'chai';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { chunkPreviewsSchema } from '#src/modules/rag/rag.schema.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { ingestionOn, sentences, uploadFile } from '#test/support/ingestion-steps.ts';
import { embeddedTexts } from '#test/support/scripted-model.ts';
import { answerEmbeddings } from '#test/support/scripted-server.ts';
import { useIdleStack } from '#test/support/stack.ts';

async function sweepAll(sweepUnused: (after: never) => Promise<{ next: unknown }>): Promise<void> {
  for (let after: unknown = null; ; ) {
    after = (await sweepUnused(after as never)).next;
    if (after === null) return;
  }
}

describe('embedding windows for semantic chunking', () => {
  const sliceSize = 2_048;
  const answer = answerEmbeddings((text) => [text.length, 1], 'lengths');
  const own = useIdleStack({ EMBEDDING_MODEL: 'lengths' }, () => undefined);
  const { run, runAll } = ingestionOn(own);
  beforeEach(() => {
    own.model.behaveEmbedding(answer);
    own.model.calls.length = 0;
  });

  const convert = async (count: number, word: string, method = 'semantic') => {
    const fields = { chunking_method: method, target_tokens: '400' };
    const of = await uploadFile(own.ada, sentences(count, word), fields);
    return runAll(of, ['parseDocument', 'convertDocument']);
  };

  it('embeds each window once, slice by slice, also if a step is repeated', async () => {
    const count = sliceSize + 300;
    const of = await convert(count, 'long');
    expect(await run('convertDocument', of)).property('needsWindows', true);
    expect(await run('embedWindows', of)).deep.equal({ windowsEmbedded: sliceSize, windowsLeft: 300 });
    expect(embeddedTexts(own.model)).length(sliceSize);
    const { body: job } = await own.ada.get(`/jobs/${ingestWorkflowId(of.documentId, 1)}`, 200);
    const progress = { done: sliceSize, total: count, unit: 'sentences' };
    expect(job).deep.include({ stage: 'chunk', progress });

    expect(await run('embedWindows', of)).deep.equal({ windowsEmbedded: count, windowsLeft: 0 });
    await run('chunkDocument', of);
    expect(embeddedTexts(own.model)).length(count);
    expect(new Set(embeddedTexts(own.model)).size).equal(count);
    expect(await run('embedWindows', of)).property('windowsLeft', 0);
  });

  it('keeps the vectors of windows that were embedded before the model failed', async () => {
    const of = await convert(600, 'failing');
    let answered = 0;
    own.model.behaveEmbedding((response, body: { input: string[] }) => {
      if (answered >= 256) return void response.writeHead(503).end();
      answered += body.input.length;
      answer(response, body as never);
    });
    expect(await appErrorCode(run('embedWindows', of))).equal('model_unavailable');
    own.model.behaveEmbedding(answer);
    own.model.calls.length = 0;
    expect(await run('embedWindows', of)).deep.equal({ windowsEmbedded: 600, windowsLeft: 0 });
    expect(embeddedTexts(own.model)).length(600 - answered);
  });

  it('embeds no windows for chunking by tokens, nor for a short text', async () => {
    const byTokens = await convert(600, 'tokens', 'token');
    expect(await run('convertDocument', byTokens)).not.property('needsWindows');
    for (const document of [byTokens, await convert(3, 'few')]) {
      expect(await run('embedWindows', document)).deep.equal({ windowsEmbedded: 0, windowsLeft: 0 });
    }
    expect(embeddedTexts(own.model)).length(0);
  });

  it('keeps cached vectors of windows until the document is chunked; unused vectors are deleted after a day', async () => {
    const { db, ada } = own;
    const eve = await own.signUp('Eve');
    await db('jobs').where({ orgId: ada.orgId }).update({ finishedAt: db.fn.now() });
    const of = await convert(30, 'kept');
    await run('embedWindows', of);
    const age = () => db('embeddings').update({ createdAt: db.raw(`now() - interval '25 hours'`) });
    await age();
    const [some] = await db('embeddings').where({ orgId: ada.orgId });
    await db('embeddings').insert({ ...some, orgId: eve.orgId });
    const vectorsOf = async ({ orgId }: { orgId: string }): Promise<string[]> =>
      (await db('embeddings').where({ orgId })).map(({ textSha256 }) => textSha256.toString('hex'));
    await sweepAll(own.container.embeddings.sweepUnused);
    expect(await vectorsOf(ada), 'before it is chunked').length.least(30);
    expect(await vectorsOf(eve), 'of another organization').deep.equal([]);
    await runAll(of, ['chunkDocument', 'embedChunks']);
    await age();
    const fresh = Buffer.from('fresh');
    await db('embeddings').insert({ ...some, textSha256: fresh, createdAt: new Date() });
    await sweepAll(own.container.embeddings.sweepUnused);
    const chunks = await db('chunks').where({ documentId: of.documentId });
    const used = chunks.map(({ textSha256 }) => textSha256.toString('hex'));
    expect(await vectorsOf(ada)).have.members([...used, fresh.toString('hex')]);
  });
});

describe('contextual texts of chunks', () => {
  const sections = ['Leave', 'Travel', 'Loans', 'Office'];
  const ruleOf = (name: string) => `# ${name}\n\n${`The rule of ${name} is short. `.repeat(3).trim()}`;
  const body = sections.map(ruleOf).join('\n\n');
  const expected = sections.map((name) => `handbook.md › ${name} (page 1)\nOf the handbook, on ${name}.`);

  const own = useIdleStack({ CONTEXTUAL_MODEL: 'scripted' }, () => undefined);
  const { run, runAll, openNext } = ingestionOn(own);
  const answer = (text: string) => `Of the handbook, on ${/passage>>\n# (\w+)/.exec(text)?.[1]}.`;
  const promptOf = ({ messages }: { messages: { content: string }[] }) => messages.at(-1)?.content ?? '';
  beforeEach(() => {
    own.model.behave((request) => ({ kind: 'answer', text: answer(promptOf(request)) }));
  });

  async function convert(content: string, as = own.ada) {
    const of = await uploadFile(as, content, { name: 'handbook.md', target_tokens: '30' });
    await run('parseDocument', of);
    expect(await run('convertDocument', of)).include({ needsContexts: true });
    return of;
  }
  const situate = (of: IngestDocumentInput) => run('situateChunks', of);
  const finish = (of: IngestDocumentInput) => runAll(of, ['chunkDocument', 'embedChunks', 'activateGeneration']);
  const chunksOf = async ({ documentId }: IngestDocumentInput) =>
    chunkListSchema.parse((await own.ada.get(`/documents/${documentId}/chunks`, 200)).body).items;
  const contextsOf = async (of: IngestDocumentInput) => (await chunksOf(of)).map((chunk) => chunk.contextual_text);
  async function keptOf({ documentId }: IngestDocumentInput) {
    const { conversionId } = await own.db('documentGenerations').where({ documentId }).first('conversionId');
    return own.db('contextualTexts').where({ conversionId });
  }

  it('are embedded with their chunks and appear in a preview, after one model call per chunk', async () => {
    const of = await convert(body);
    const preview = async () => {
      const reply = await own.ada.post(`/rag/documents/${of.documentId}/chunks/preview`, {}, 200);
      return chunkPreviewsSchema.parse(reply.body).chunks.map((chunk) => chunk.contextual_text);
    };
    expect(await preview()).deep.equal([null, null, null, null]);
    expect(own.model.requests).length(0);
    expect(await situate(of)).deep.equal({ chunksSituated: 4, chunksLeft: 0 });
    expect(own.model.requests).length(4);
    const [system, user] = own.model.requests[0]?.messages ?? [];
    expect(system?.role).equal('system');
    expect(user?.content).include(body);
    await situate(of);
    await finish(of);
    expect(await contextsOf(of)).deep.equal(expected);
    expect(await preview()).deep.equal(expected);
    expect(embeddedTexts(own.model)).include(`${expected[0]}\n${(await chunksOf(of))[0]?.content}`);

    const again = await runAll(await openNext(of), ['parseDocument', 'convertDocument']);
    expect(await situate(again)).deep.equal({ chunksSituated: 4, chunksLeft: 0 });
    await finish(again);
    expect(await contextsOf(again)).deep.equal(expected);
    expect(own.model.requests).length(4);
    // Another organization does not share the answers.
    await situate(await convert(body, await own.signUp('Eve')));
    expect(own.model.requests).length(8);
  });

  it('need one model call for chunks of equal text, with the text around the first of these chunks', async () => {
    const part = (index: number) => `Line ${index} of the part is as long as the others. `.repeat(400).trim();
    const same = ruleOf('Same');
    await situate(await convert([same, part(1), part(2), part(3), part(4), same, part(5)].join('\n\n')));
    const prompts = own.model.requests.map(promptOf).filter((text) => /passage>>\n# Same/.test(text));
    expect(prompts).length(1);
    expect(prompts[0]).include('Line 1 of').not.include('Line 4 of');
  });

  it('are kept when another call of the same slice fails; a retry calls the model only for the missing texts', async () => {
    const of = await convert(`${body}\n\n${ruleOf('Pets')}`);
    own.model.behave((request) =>
      promptOf(request).includes('passage>>\n# Loans')
        ? { kind: 'status', status: 503 }
        : { kind: 'answer', text: answer(promptOf(request)) },
    );
    expect(await appErrorCode(situate(of))).equal('model_unavailable');
    expect(await keptOf(of)).length(4);
    own.model.behave(() => ({ kind: 'answer', text: 'At last.' }));
    expect(await situate(of)).deep.equal({ chunksSituated: 5, chunksLeft: 0 });
    expect(own.model.requests).length(1);
    expect(own.model.requests.map(promptOf)[0]).include('passage>>\n# Loans');
  });

  it('contain only document name, headings and page if the user requested no more or the model answers nothing', async () => {
    const unasked = await convert('A text of a run that began before.');
    const silent = await convert('A text of which there is nothing to say.');
    own.model.behave(() => ({ kind: 'answer', text: '" "' }));
    await situate(silent);
    for (const document of [unasked, silent]) {
      await finish(document);
      expect(await contextsOf(document)).deep.equal(['handbook.md (page 1)']);
    }
  });

  it('are deleted a day after their last chunk, and at once with their document', async () => {
    const of = await convert('# Leave\n\nOne rule of its own.\n\n# Travel\n\nAnother rule of its own.');
    await situate(of);
    const kept = await keptOf(of);
    expect(kept).length.above(0);
    const { db, container } = own;
    await db('contextualTexts').insert({ ...kept[0], chunkSha256: Buffer.alloc(32) });
    const { conversionId } = kept[0];
    const stored = () => db('contextualTexts').where({ conversionId });
    await stored().update({ createdAt: db.raw(`now() - interval '25 hours'`) });
    await sweepAll(container.chunkContexts.sweepUnused);
    expect(await stored(), 'before the generation is chunked').length(kept.length + 1);
    await finish(of);
    await sweepAll(container.chunkContexts.sweepUnused);
    expect(await stored(), 'after it is chunked').length(kept.length);

    await own.ada.delete(`/documents/${of.documentId}`, 204);
    await container.deletion.deleteVectors(of);
    await container.deletion.deleteChunks(of, new AbortController().signal);
    await container.deletion.deleteOriginal(of);
    await container.deletion.forgetDocument(of);
    expect(await stored()).length(0);
  });
});
