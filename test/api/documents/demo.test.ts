import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { type Stack, stack } from '#test/support/stack.ts';
import { createApiClient } from '../../../scripts/demo/api-client.ts';
import { signIn } from '../../../scripts/demo/demo-account.ts';
import { createNarrator } from '../../../scripts/demo/narrator.ts';
import { readPipedQuestions } from '../../../scripts/demo/questions.ts';
import { askQuestion, ingest, listSearchable, publishAgent } from '../../../scripts/demo/story.ts';

describe('npm run demo', () => {
  let shared: Stack;
  let directory: string;
  before(async () => {
    shared = await stack();
    directory = await mkdtemp(join(tmpdir(), 'demo-'));
  });
  after(() => rm(directory, { recursive: true }));

  it('answers in a second run from the files of the first, and ingests no unchanged file again', async () => {
    const told: string[] = [];
    const narrator = createNarrator({ write: (text) => told.push(text) > 0 });
    const [first, second] = [join(directory, 'whales.md'), join(directory, 'foxes.md')];
    await writeFile(first, 'The blue whale has a heart that weighs as much as a car.');
    await writeFile(second, 'The red fox hunts voles under the snow.');
    async function run(file: string) {
      const { api } = await signIn(createApiClient(shared.baseUrl), join(directory, 'account.json'));
      const id = await ingest(api, file, await listSearchable(api), narrator);
      return { api, id, names: (await listSearchable(api)).map(({ name }) => name) };
    }
    const { id, names } = await run(first);
    expect(names).deep.equal(['whales.md']);
    const { api, names: both } = await run(second);
    expect(both).deep.equal(['foxes.md', 'whales.md']);
    expect(await run(first)).deep.include({ id, names: both });
    await writeFile(first, 'The blue whale sings.');
    expect((await run(first)).names).length(3);

    const agent = await publishAgent(api, 'Document guide', { whale: 5 });
    const text = 'How much does the heart of a blue whale weigh?';
    await askQuestion(api, narrator, { text, agentId: agent.id, chatId: null });
    expect(told.join('')).match(/weighs as much as a car\.? \[1\]/);
  });

  it('reads piped lines without blank ones, and knows when they have ended', async () => {
    const input = new PassThrough();
    const piped = readPipedQuestions(input);
    expect(piped.hadLines()).equal(false);
    const next = piped.next();
    input.write('Who signs?\n\n  When? \nWhere');
    expect(await next).equal('Who signs?');
    expect(piped.takeAll()).deep.equal(['When?']);
    input.end();
    expect([await piped.next(), await piped.next(), piped.hadLines()]).deep.equal(['Where', null, true]);
  });
});
