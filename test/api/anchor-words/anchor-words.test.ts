import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import { problemSchema } from '#src/http/response/problem.ts';
import { agentSchema } from '#src/modules/agents/agents.schema.ts';
import { anchorWordCandidatesSchema, anchorWordsSchema } from '#src/modules/anchor-words/anchor-words.routes.ts';
import {
  aColleague,
  aDraft,
  anAgentOfDraft,
  anIngestedDocument,
  aPublishedAgent,
  loanAnchors,
} from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import type { ChatRequest } from '#test/support/scripted-model.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { untilJob } from '#test/support/until-job.ts';

const webShop = {
  agent_name: 'Shop assistant',
  tags: ['support', 'e-commerce'],
  agent_prompt:
    'You are the support assistant of an online shop for outdoor clothing. Help customers with orders, delivery ' +
    'times, returns and refunds, sizes and vouchers. Always ask for the order number before you look anything up. ' +
    'Be friendly and brief. If a question has nothing to do with the shop, say so politely.',
};

const analyze = createTextAnalyzer();
const stemsOf = (word: string) => Array.from(analyze(word), ({ stem }) => stem).join(' ');
/** Answers in the order of questions; a repeated question contains the previous answer. */
const answering =
  (...texts: string[]) =>
  ({ messages }: ChatRequest) => {
    const before = messages.filter(({ role }) => role === 'assistant').length;
    return { kind: 'answer', text: texts[Math.min(before, texts.length - 1)] ?? '' } as const;
  };
const proposing = (...words: unknown[]) => answering(JSON.stringify({ words }));

describe('anchor words', () => {
  let stack: ScriptedStack;
  let ada: Member;
  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp();
  });
  afterEach(() => stack.model.behaveAnchoring(null));

  const isDown = () => stack.model.behaveAnchoring(() => ({ kind: 'status', status: 503 }));

  async function expand(body: object, client: ApiClient = ada): Promise<string[]> {
    const reply = await client.post('/anchor-words/expand', body, 200);
    return anchorWordCandidatesSchema.parse(reply.body).anchor_word_candidates;
  }
  async function refused(body: object, status: number): Promise<{ code: string; paths: string[] }> {
    const { code, errors = [] } = problemSchema.parse((await ada.post('/anchor-words/expand', body, status)).body);
    return { code, paths: errors.map(({ path }) => path) };
  }

  it('are proposed without a chat model: 24 to 40 words with different stems', async () => {
    isDown();
    const words = await expand({ ...webShop, words: ['', ' '], exclude_words: [''] });
    expect(words).length.within(24, 40);
    expect(new Set(words.map(stemsOf)).size).equal(words.length);
    for (const word of words) expect(analyze(word)).length.within(1, 3);
  });

  it('are proposed with the valid words of the chat model first, and words from other sources after them', async () => {
    const valid = ['parcel', 'gift card', 'size chart', '天文学', 'звезда'];
    const invalid = ['x', '<b>bold</b>', 'see https://example.com', 'one two three four', '12', 'line\nbreak', 7, null];
    stack.model.behaveAnchoring(proposing(...Array(40).fill('comet'), ...invalid, ...valid));
    const words = await expand(webShop);
    expect(words).length.within(24, 40);
    expect(words.slice(0, 20)).include.members(valid);
    expect(words.filter((word) => stemsOf(word) === 'comet')).length(1);
    for (const word of words) expect(word).match(/^[\p{L}\p{M}\p{N} '’.+#&/-]+$/u);
  });

  it('are not proposed if they are forms of a word that is chosen, excluded or already an anchor word of the agent', async () => {
    stack.model.behaveAnchoring(proposing('Refunds', 'vouchers', 'the', 'parcels', 'loans', 'mortgages', 'deposit'));
    const taken = { words: ['refund'], anchor_words: ['voucher'], exclude_words: ['Parcel'] };
    const words = await expand({ agent_id: await aPublishedAgent(ada), agent_name: '', tags: [], ...taken });
    expect(words).include('deposit');
    const known = ['refund', 'voucher', 'parcel', 'the', ...Object.keys(loanAnchors)];
    for (const word of known) expect(words.map(stemsOf)).not.include(stemsOf(word));
  });

  it('are proposed only from documents that the caller may read', async () => {
    isDown();
    const owner = await stack.signUp();
    const content = 'The flumbrium regulator of a boiler. Each flumbrium regulator is set when the boiler is cold.';
    await anIngestedDocument(owner, 'Boilers', content);
    const body = { agent_prompt: 'You help fitters with the regulators of a boiler.' };
    const saysIt = async (reader: ApiClient) => (await expand(body, reader)).join().includes('flumbrium');
    expect(await saysIt(owner)).equal(true);
    for (const reader of [await aColleague(stack, owner), ada]) expect(await saysIt(reader)).equal(false);
  });

  it('are not proposed (422) if a request has both agent_id and draft fields, no usable text or an unknown model', async () => {
    const agent_id = await aPublishedAgent(ada);
    for (const [body, code, paths] of [
      [{ agent_id, tags: ['a'], agent_prompt: 'You lend.' }, 'validation_failed', ['agent_prompt', 'tags']],
      [{}, 'validation_failed', ['agent_prompt']],
      [{ agent_name: ' ', agent_prompt: '…', words: ['12'] }, 'validation_failed', ['agent_prompt']],
      [{ ...webShop, chat_model: 'nobody' }, 'unknown_model', ['chat_model']],
    ] as const) {
      expect(await refused(body, 422)).deep.equal({ code, paths });
    }
  });

  it('are not proposed when the embedding service rejects the request (502) or is unavailable (503)', async () => {
    for (const [status, providerStatus, code] of [
      [502, 400, 'model_rejected'],
      [503, 503, 'model_unavailable'],
    ] as const) {
      stack.model.failEmbeddings(true, providerStatus);
      const answer = await refused(webShop, status).finally(() => stack.model.failEmbeddings(false));
      expect(answer.code).equal(code);
    }
  });

  it('are shown with their weights to all users of the agent; GET answers 404 if the agent has none', async () => {
    const agent_id = await aPublishedAgent(ada, { visibility: 'org_level' });
    const grace = await aColleague(stack, ada);
    const words = anchorWordsSchema.parse((await grace.get(`/anchor-words/${agent_id}`, 200)).body);
    const { created_at } = Object((await ada.get(`/agents/${agent_id}`, 200)).body);
    const notTried = { anchor_fit: null, helpful_anchor_words: [] };
    expect(words).deep.equal({ agent_id, anchor_words: loanAnchors, anchor_word_count: 8, ...notTried, created_at });
    await stack.container.db('agents').where({ id: agent_id }).update({ anchorWords: '{}' });
    const none = await ada.get(`/anchor-words/${agent_id}`, 404);
    expect(none.body).include({ code: 'anchor_words_not_initialized' });
    await ada.delete(`/agents/${agent_id}`, 204);
    expect((await ada.get(`/anchor-words/${agent_id}`, 404)).body).include({ code: 'agent_not_found' });
  });

  it('are proposed for a newly published agent, from documents that all its users may read, without its present words', async () => {
    stack.model.behaveAnchoring(proposing('down payment', 'mortgages'));
    await anIngestedDocument(ada, 'Loans', 'A flumbrium loan. The flumbrium loan of a bank is repaid late.');
    const agentId = await aPublishedAgent(ada);
    await untilJob(ada, anchorWordsWorkflowId(agentId), 'succeeded');
    const words = agentSchema.parse((await ada.get(`/agents/${agentId}`, 200)).body).anchor_word_candidates;
    expect(words).include('down payment').and.not.include.members(['mortgages']);
    for (const word of Object.keys(loanAnchors)) expect(words).not.include(word);
    expect(words).length.within(24, 40);
    expect(JSON.stringify([words, stack.model.anchorRequests])).not.include('flumbrium');

    // Operators find the run by its agent.
    const run = stack.container.temporal.client.workflow.getHandle(anchorWordsWorkflowId(agentId));
    await run.result();
    const attributes = (await run.describe()).typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]);
    expect(Object.fromEntries(attributes)).include({ AgentId: agentId, JobKind: 'anchors', Stage: 'done' });
  });

  describe('at publication', () => {
    const handbook = `The mechanical seal of the pump leaks after dry running in the casing.
      Grease the bearings of the pump with lithium grease after two thousand hours.
      Cavitation in the impeller sounds like gravel and damages the blades.
      Employees take thirty days of vacation in each calendar year.
      Parental leave is granted by the human resources department for three years.
      A doctor certifies the sickness of employees from the third day of absence.`;
    const guide = { agent_name: 'Guide', agent_prompt: 'You answer questions about the pump and about leave.' };
    const weak = { company: 5, number: 5 };
    const fitting = { pump: 5, 'mechanical seal': 5, bearings: 5, impeller: 5, vacation: 5, leave: 5, sickness: 5 };
    let author: Member;
    before(async () => {
      author = await stack.signUp();
      await anIngestedDocument(author, 'Handbook', handbook);
    });
    const publish = async (fields: object, body?: object) =>
      anAgentOfDraft(author, await aDraft(author, { ...guide, ...fields }), body);

    it('are tried on golden prompts and readable documents; weak ones get a warning with better words of these documents', async () => {
      const golden_cases = [{ id: 'seal', prompt: 'Why does the mechanical seal leak?' }];
      const agent = await publish({ anchor_words: weak, golden_cases }, { visibility: 'org_level' });
      expect(agent.anchor_fit).lessThan(0.5);
      const [warning, ...others] = agent.warnings;
      expect(others).deep.equal([]);
      expect(warning?.code).equal('weak_anchor_words');
      const suggested = warning?.suggested_anchor_words ?? {};
      expect(Object.keys(suggested)).include.members(['mechanical seal', 'employees']);

      const better = await publish({ anchor_words: { ...weak, ...suggested }, golden_cases });
      expect(better.anchor_fit).greaterThan(0.8);
      expect(better.warnings).deep.equal([]);

      // Other users of the agent may not read the documents, so that they see only the agent's own words.
      const grace = await aColleague(stack, author);
      const shown = anchorWordsSchema.parse((await grace.get(`/anchor-words/${agent.id}`, 200)).body);
      expect(shown).deep.include({ anchor_fit: agent.anchor_fit, helpful_anchor_words: agent.helpful_anchor_words });
      expect(Object.keys(weak)).include.members(shown.helpful_anchor_words);
    });

    it('name the words that help most if they fit', async () => {
      const agent = await publish({ anchor_words: { ...weak, ...fitting } });
      expect(agent.anchor_fit).greaterThan(0.8);
      expect(Object.keys(fitting)).include.members(agent.helpful_anchor_words);
      expect(agent).deep.include({ warnings: [] });
    });

    it('are not tried (null) while the embedding model is unavailable, and the agent is published', async () => {
      stack.model.failEmbeddings(true, 503);
      const agent = await publish({ anchor_words: weak }).finally(() => stack.model.failEmbeddings(false));
      expect(agent).deep.include({ anchor_fit: null, helpful_anchor_words: [], warnings: [] });
    });

    it('are in a language that alignment does not know: the request or the texts of the agent show it', async () => {
      const codesOf = async (fields: object, body: object) =>
        (await publish({ anchor_words: fitting, ...fields }, body)).warnings.map(({ code }) => code);
      expect(await codesOf({}, { language: 'pt-BR' })).deep.equal(['language_not_supported']);
      expect(await codesOf({}, { language: 'en-GB' })).deep.equal([]);
      const agent_prompt =
        'Du beantwortest Fragen der Kundinnen und Kunden einer Bank zu Krediten, Konten und Überweisungen. Antworte höflich.';
      const stranger = await stack.signUp();
      const draft = await aDraft(stranger, { ...guide, agent_prompt, anchor_words: fitting });
      const { warnings, anchor_fit } = await anAgentOfDraft(stranger, draft);
      expect(warnings.map(({ code }) => code)).deep.equal(['language_not_supported']);
      // The persona is the only text of this agent.
      expect(anchor_fit).equal(null);
    });
  });
});
