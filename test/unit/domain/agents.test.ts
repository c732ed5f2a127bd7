import { expect } from 'chai';
import fc from 'fast-check';
import {
  anchorWordProblems,
  type DraftVersionLink,
  descendantVersions,
  draftNameOrDefault,
  emptyDraftFields,
  mergeDraftFields,
  normalizeAnchorWords,
  planVersionCommit,
  planVersionRemoval,
  publicationProblems,
  versionTitleOrDefault,
} from '#src/domain/agents/drafts.ts';
import { modelCostUsd, modelKindByName, modelListPrices, zeroModelPrice } from '#src/domain/agents/prices.ts';
import { allTools, toolProviders, unknownToolIds } from '#src/domain/agents/tools.ts';

describe('the fields of a version', () => {
  it('are inherited if not sent, and overwritten if sent as empty', () => {
    const parent = { ...emptyDraftFields, agentPrompt: 'Answer briefly.', color: '#102030', tags: ['law'] };
    expect(emptyDraftFields).deep.include({ tags: [], iconName: null, chatModel: null });
    expect(mergeDraftFields(parent, { agentName: 'Clerk' })).to.deep.equal({ ...parent, agentName: 'Clerk' });
    const chosen = { iconName: 'owl', chatModel: 'small' };
    expect(mergeDraftFields(parent, chosen)).to.deep.equal({ ...parent, ...chosen });
    expect(mergeDraftFields(parent, { agentPrompt: '', color: null, tags: [] })).to.deep.equal(emptyDraftFields);
  });

  it('have defaults: the title `v4` for version 4, and the draft name `Untitled Draft`', () => {
    expect([draftNameOrDefault('Clerk'), draftNameOrDefault(' ')]).to.deep.equal(['Clerk', 'Untitled Draft']);
    const titles = [undefined, '  ', ' Calm tone '].map((title) => versionTitleOrDefault(title, 4));
    expect(titles).to.deep.equal(['v4', 'v4', 'Calm tone']);
  });

  it('accept anchor words of up to three words with weights from 1 to 10, and normalize their spelling', () => {
    const problemsOf = (words: Record<string, number>) => anchorWordProblems(words).map(({ message }) => message);
    expect(problemsOf({ invoice: 1, 'value added tax': 10, ['x'.repeat(100)]: 2 })).to.deep.equal([]);
    expect(problemsOf({ ' ': 1 })).to.deep.equal(['must not be blank']);
    expect(problemsOf({ 'a b c d': 1 })).to.deep.equal(['must have at most 3 words']);
    expect(problemsOf({ ['x'.repeat(101)]: 1 })).to.deep.equal(['must have at most 100 characters']);
    expect(problemsOf({ tax: 1, ' Tax': 2 })).to.deep.equal(['repeats another anchor word']);
    for (const weight of [-1, 0, 11, 1.5, Number.NaN]) {
      expect(problemsOf({ tax: weight })).to.deep.equal(['must have an integer weight from 1 to 10']);
    }
    expect(normalizeAnchorWords({ '  value\tadded  tax ': 3 })).to.deep.equal({ 'value added tax': 3 });
  });

  it('can be published only with a prompt, an anchor word, and either no chat model or an available one', () => {
    type Fields = Parameters<typeof publicationProblems>[0];
    const ready: Fields = { agentPrompt: 'Answer briefly.', anchorWords: { tax: 5 }, chatModel: null };
    const missing = (fields: Partial<Fields>) =>
      publicationProblems({ ...ready, ...fields }, ['offered']).map(({ path }) => path);
    expect(missing({})).to.deep.equal([]);
    expect(missing({ chatModel: 'offered' })).to.deep.equal([]);
    expect(missing({ agentPrompt: ' \n', anchorWords: {} })).to.deep.equal(['agent_prompt', 'anchor_words']);
    expect(missing({ chatModel: 'gone' })).to.deep.equal(['chat_model']);
  });
});

describe('the chain of versions', () => {
  const chain: DraftVersionLink[] = [
    { id: 'c', parentVersionId: 'b' },
    { id: 'a', parentVersionId: null },
    { id: 'b', parentVersionId: 'a' },
  ];

  it('accepts a commit after the newest version; a forced one after an older version deletes all later ones', () => {
    expect(planVersionCommit(chain, 'c', false)).to.deep.equal({ outcome: 'commit', deletedIds: [] });
    expect(planVersionCommit(chain, 'a', false).outcome).to.equal('parent_has_descendants');
    expect(planVersionCommit(chain, 'a', true)).to.deep.equal({ outcome: 'commit', deletedIds: ['b', 'c'] });
    expect(planVersionCommit(chain, 'x', true).outcome).to.equal('parent_missing');
  });

  it('stays connected when a version is removed, and keeps at least one version', () => {
    const removed = (id: string, childId: string | null, parentId: string | null, headId: string) =>
      expect(planVersionRemoval(chain, id)).to.deep.equal({ outcome: 'remove', childId, parentId, headId });
    removed('b', 'c', 'a', 'c');
    removed('a', 'b', null, 'c');
    removed('c', null, 'b', 'b');
    expect(planVersionRemoval([{ id: 'a', parentVersionId: null }], 'a').outcome).to.equal('last_version');
    expect(planVersionRemoval(chain, 'x').outcome).to.equal('version_missing');
  });

  it('stays linear and uses no version number twice, whatever is committed', () => {
    const commits = fc.array(fc.record({ parent: fc.nat(20), force: fc.boolean() }), { maxLength: 60 });
    fc.assert(
      fc.property(commits, (sequence) => {
        let links: DraftVersionLink[] = [{ id: 'v1', parentVersionId: null }];
        let nextNumber = 2;
        for (const { parent, force } of sequence) {
          const parentVersionId = links[parent % links.length]?.id ?? 'v1';
          const plan = planVersionCommit(links, parentVersionId, force);
          if (plan.outcome !== 'commit') continue;
          links = links.filter(({ id }) => !plan.deletedIds.includes(id));
          links.push({ id: `v${nextNumber++}`, parentVersionId });
        }
        expect(links.filter(({ parentVersionId }) => parentVersionId === null)).to.have.length(1);
        expect(descendantVersions(links, 'v1')).to.have.length(links.length - 1);
        const numbers = links.map(({ id }) => Number(id.slice(1)));
        expect(numbers).to.deep.equal([...new Set(numbers)].sort((a, b) => a - b));
      }),
    );
  });
});

describe('the tools of an agent', () => {
  it('accept only declared parameters, with types and limits, and need only permissions of their provider', () => {
    for (const { id, provider, actions, parameters } of allTools) {
      expect(parameters, id).include({ type: 'object', additionalProperties: false });
      const { properties, required = [] } = parameters as { properties: object; required?: string[] };
      expect(Object.keys(properties), id).include.members(required).and.length.above(0);
      for (const property of Object.values(properties)) {
        expect(property).property('type').a('string');
        expect('maxLength' in property || 'maximum' in property || 'enum' in property, id).equal(true);
      }
      const auth = toolProviders.find((each) => each.id === provider)?.auth;
      const granted = auth?.kind === 'oauth' ? auth.scopes.map((scope) => scope.id) : [];
      expect(actions, id).length.above(0);
      for (const action of actions) {
        expect(action).property('crudl').a('string');
        expect(action.scopes).length(granted.length > 0 ? 1 : 0);
        expect(granted).include.members([...action.scopes]);
      }
    }
    for (const { auth } of toolProviders) {
      expect(auth.kind).oneOf(['api_key', 'oauth']);
      if (auth.kind === 'api_key') expect(auth.fields).deep.include({ ...auth.fields[0], id: 'api_key', secret: true });
    }
    expect(unknownToolIds(['web.fetch', 'web.forget', 'time.now'])).deep.equal(['web.forget']);
  });
});

describe('the kind and the list price of a model', () => {
  it('follow from its name, and cached input costs no more than uncached input', () => {
    for (const [kind, names] of [
      ['chat', ['gpt-4o', 'claude-sonnet-4', 'qwen3:8b']],
      ['embedding', ['text-embedding-3-small', 'bge-m3', 'all-MiniLM-L6-v2']],
      ['reranker', ['bge-reranker-v2', 'ms-marco-cross-encoder']],
      [null, ['whisper-1', 'dall-e-3', 'tts-1', 'gpt-4o-realtime']],
    ] as const) {
      for (const name of names) expect(modelKindByName(name), name).equal(kind);
    }
    for (const [name, { input, cachedInput, output }] of Object.entries(modelListPrices)) {
      expect(cachedInput, name).within(0, input);
      expect(output, name).within(modelKindByName(name) === 'embedding' ? 0 : input, 10);
    }
  });
});

describe('the cost of a reply', () => {
  it('counts cached input at its own price, and is zero for a local model', () => {
    const usage = { inputTokens: 1_000_000, cachedInputTokens: 400_000, completionTokens: 100_000 };
    const price = { input: 2, cachedInput: 0.5, output: 10 };
    expect(modelCostUsd(price, usage)).closeTo(0.6 * 2 + 0.4 * 0.5 + 0.1 * 10, 1e-9);
    expect(modelCostUsd(zeroModelPrice, usage)).equal(0);
    const reply = { inputTokens: 1_200, cachedInputTokens: 1_024, completionTokens: 300 };
    const listed = modelListPrices['gpt-4o-mini'] ?? zeroModelPrice;
    expect(modelCostUsd(listed, reply)).closeTo((176 * 0.15 + 1_024 * 0.075 + 300 * 0.6) / 1e6, 1e-12);
  });
});
