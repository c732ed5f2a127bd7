import { expect } from 'chai';
import { agentSchema } from '#src/modules/agents/agents.schema.ts';
import {
  aColleague,
  aDraft,
  aFolder,
  anAgentOfDraft,
  anIngestedDocument,
  ask,
  type ChatMessage,
  clerk,
  rootOf,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import type { ChatRequest } from '#test/support/scripted-model.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

const tools = ['knowledge.search', 'knowledge.read'];
const codes = ({ tool_calls }: ChatMessage) => tool_calls.map(({ error_code }) => error_code);

describe('the document scope of an agent', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let grace: Member;
  let root: string;
  /** The folder of rules, with a folder below it. */
  let rules: string;
  let below: string;
  /** Documents by name; each says "The loan fee of <name> is one percent." */
  const documents: Record<string, string> = {};

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    await stack.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
    grace = await aColleague(stack, ada);
    root = await rootOf(ada, 'org_root');
    rules = (await aFolder(ada, root, 'Rules')).id;
    below = (await aFolder(ada, rules, 'Below')).id;
    const places = { Alpha: rules, Beta: below, Gamma: root, Delta: root, Secret: await rootOf(ada, 'personal_root') };
    for (const [name, target_folder_id] of Object.entries(places))
      documents[name] = await aDocument(name, target_folder_id);
  });

  const aDocument = (name: string, target_folder_id: string) =>
    anIngestedDocument(ada, name, `The loan fee of ${name} is one percent.`, { target_folder_id });
  const idsOf = (...names: string[]) => names.map((name) => documents[name] ?? '');

  async function anAgent(document_scope: object | null | undefined, fields: object = {}) {
    const draft = await aDraft(ada, { ...clerk, enabled_tools: tools, visibility: 'org_level', ...fields });
    return anAgentOfDraft(ada, draft, { document_scope });
  }

  /** The names of the documents in the prompt of a question, sorted. */
  async function namesFor(member: Member, agent_id: string, fields: object = {}): Promise<string[]> {
    stack.model.behave(() => ({ kind: 'answer', text: 'One percent.' }));
    await ask(member, { agent_id, message: 'What is the loan fee?', ...fields }, 201);
    const prompt =
      stack.model.requests
        .at(-1)
        ?.messages.map(({ content }) => content)
        .join('\n') ?? '';
    return Array.from(prompt.matchAll(/<<[a-z0-9]+ \d+ \| ([^|]+) \| p\. \d+>>/g), ([, name = '']) => name).sort();
  }

  it('limits passages to its folders, with all below them, and documents; without one, all readable documents count', async () => {
    const { id, document_scope } = await anAgent({ folder_ids: [rules], document_ids: idsOf('Gamma', 'Secret') });
    expect(document_scope).deep.equal({ folder_ids: [rules], document_ids: idsOf('Gamma', 'Secret') });
    expect(await namesFor(ada, id)).deep.equal(['Alpha', 'Beta', 'Gamma', 'Secret']);
    expect(await namesFor(grace, id)).deep.equal(['Alpha', 'Beta', 'Gamma']);
    for (const unbound of [null, undefined]) {
      const agent = await anAgent(unbound);
      expect(agent.document_scope).equal(null);
      expect(await namesFor(grace, agent.id)).deep.equal(['Alpha', 'Beta', 'Delta', 'Gamma']);
    }
  });

  it('is narrowed by the lists of a chat, and never widened', async () => {
    const { id } = await anAgent({ folder_ids: [rules] });
    const asked = (fields: object) => namesFor(ada, id, fields);
    expect(await asked({ include_document_ids: idsOf('Beta', 'Gamma') })).deep.equal(['Beta']);
    expect(await asked({ include_document_ids: idsOf('Gamma') })).deep.equal([]);
    expect(await asked({ exclude_document_ids: idsOf('Beta') })).deep.equal(['Alpha']);
    const inDocument = await anAgent({ document_ids: idsOf('Gamma') });
    expect(await namesFor(ada, inDocument.id, { exclude_document_ids: idsOf('Gamma') })).deep.equal([]);
  });

  it('holds for the tools that search and read documents', async () => {
    const { id: agent_id } = await anAgent({ folder_ids: [rules] });
    const read = (name: string) => ({ name: 'knowledge_read', args: { document_id: documents[name] } });
    const calls = [{ name: 'knowledge_search', args: { query: 'loan fee' } }, ...['Beta', 'Gamma', 'Delta'].map(read)];
    stack.model.behave(({ messages, tools: offered }: ChatRequest) =>
      offered === undefined || messages.some(({ role }) => role === 'tool')
        ? { kind: 'answer', text: 'One percent.' }
        : { kind: 'call', calls },
    );
    const answer = await ask(ada, { agent_id, message: 'What is the loan fee?' }, 201);
    expect(codes(answer)).deep.equal([null, null, 'document_not_found', 'document_not_found']);
    const seen = JSON.stringify(stack.model.requests);
    expect(seen)
      .match(/of Alpha is[\s\S]*of Beta is/)
      .and.not.match(/of (Gamma|Delta) is/);
    const narrowed = await ask(ada, { agent_id, message: 'What?', exclude_document_ids: idsOf('Beta') }, 201);
    expect(codes(narrowed)[1]).equal('document_not_found');
  });

  it('holds for proposed anchor words', async () => {
    const content = 'A flumbrium loan. The flumbrium loan of a bank is repaid late.';
    const loans = await anIngestedDocument(ada, 'Loans', content);
    stack.model.behave(() => ({ kind: 'answer', text: 'nothing' }));
    const candidatesOf = async (document_scope: object) => {
      const { id: agent_id } = await anAgent(document_scope, { agent_prompt: 'You help customers with their loans.' });
      return Object((await ada.post('/anchor-words/expand', { agent_id }, 200)).body).anchor_word_candidates.join();
    };
    expect(await candidatesOf({ document_ids: [loans] })).include('flumbrium');
    expect(await candidatesOf({ folder_ids: [rules] })).not.include('flumbrium');
    await ada.delete(`/documents/${loans}`, 204);
  });

  it('can be changed and removed after publication, and follows documents that are moved into its folders', async () => {
    const { id } = await anAgent({ folder_ids: [below] });
    const change = async (document_scope: object | null) =>
      agentSchema.parse((await ada.patch(`/agents/${id}`, { document_scope }, 200)).body).document_scope;
    const moved = await aDocument('Moved', rules);
    expect(await namesFor(ada, id)).deep.equal(['Beta']);
    await ada.post(`/documents/${moved}/links`, { folder_id: below, promote: true }, 201);
    expect(await namesFor(ada, id)).deep.equal(['Beta', 'Moved']);
    expect(await change({ document_ids: idsOf('Delta') })).deep.equal({ folder_ids: [], document_ids: idsOf('Delta') });
    const { body } = await ada.patch(`/agents/${id}`, { agent_name: 'Notary' }, 200);
    expect(body).deep.include({ document_scope: { folder_ids: [], document_ids: idsOf('Delta') } });
    expect(await namesFor(ada, id)).deep.equal(['Delta']);
    expect(await change(null)).equal(null);
    expect(await namesFor(ada, id)).length(6);
    await ada.delete(`/documents/${moved}`, 204);
  });

  it('keeps deleted folders and documents, which match nothing, so that it never widens', async () => {
    const gone = (await aFolder(ada, root, 'Gone')).id;
    const document = await aDocument('Old', root);
    const scope = { folder_ids: [gone], document_ids: [document] };
    const { id } = await anAgent(scope);
    await ada.delete(`/folders/${gone}`, 204);
    await ada.delete(`/documents/${document}`, 204);
    expect(Object((await ada.get(`/agents/${id}`, 200)).body).document_scope).deep.equal(scope);
    expect(await namesFor(ada, id)).deep.equal([]);
    // Ids that the scope has already can be sent back.
    await ada.patch(`/agents/${id}`, { document_scope: { ...scope, folder_ids: [gone, rules] } }, 200);
    expect(await namesFor(ada, id)).deep.equal(['Alpha', 'Beta']);
    await anAgent(null).then(({ id: other }) => ada.patch(`/agents/${other}`, { document_scope: scope }, 422));
  });

  it('with an empty list, or a folder or document that the caller may not read, is rejected with 422', async () => {
    const eve = await stack.signUp('Eve');
    const foreign = await anIngestedDocument(eve, 'Foreign', 'The vault.');
    const { id: draft, head_version_id: version_id } = await aDraft(grace, clerk);
    const agent = await anAgentOfDraft(grace, { id: draft, head_version_id: version_id });
    const [personalRoot] = [await rootOf(ada, 'personal_root')];
    for (const [document_scope, path, code] of [
      [{ folder_ids: [rules, personalRoot] }, 'folder_ids.1', 'folder_not_found'],
      [{ folder_ids: [await rootOf(eve, 'org_root')] }, 'folder_ids.0', 'folder_not_found'],
      [{ document_ids: idsOf('Alpha', 'Secret') }, 'document_ids.1', 'document_not_found'],
      [{ folder_ids: [rules], document_ids: [foreign] }, 'document_ids.0', 'document_not_found'],
      [{ folder_ids: [], document_ids: [] }, undefined, undefined],
      [{}, undefined, undefined],
    ] as const) {
      for (const answer of [
        await grace.post(`/agent-drafts/${draft}/publish`, { version_id, document_scope }, 422),
        await grace.post('/agents', { ...clerk, document_scope }, 422),
        await grace.patch(`/agents/${agent.id}`, { document_scope }, 422),
      ]) {
        const [error] = Object(answer.body).errors;
        expect(error.path).equal(['document_scope', path].filter(Boolean).join('.'));
        if (code !== undefined) expect(error).include({ code });
      }
    }
    const { body } = await grace.post('/agents', { ...clerk, document_scope: { folder_ids: [rules] } }, 201);
    expect(body).deep.include({ document_scope: { folder_ids: [rules], document_ids: [] } });
    expect(await namesFor(grace, Object(body).id)).deep.equal(['Alpha', 'Beta']);
  });
});
