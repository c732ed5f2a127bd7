import { expect } from 'chai';
import { defaultRagConfig, type RagConfig } from '#src/domain/documents/rag-config.ts';
import {
  chooseGroupsWithOwnSearch,
  maxGroupsSearchedByOwnSettings,
  planGroupSearches,
} from '#src/modules/retrieval/leg-search.ts';
import type { DocumentGroup } from '#src/modules/retrieval/retrieval.model.ts';

function group(settings: Partial<RagConfig['retrieval']>, embeddingModel = 'model-a'): DocumentGroup {
  const usual = defaultRagConfig({ embeddingModel, hasReranker: false }).retrieval;
  const retrievalSettings = JSON.stringify({ ...usual, ...settings });
  const signature = retrievalSettings + embeddingModel;
  return { signature, settings: { ...usual, ...settings }, retrievalSettings, embeddingModel, languages: ['en'] };
}
const noCount = async (): Promise<never> => {
  throw new Error('nobody needs to count');
};
const plan = async (groups: DocumentGroup[], count: () => Promise<Map<string, number>> = noCount) =>
  planGroupSearches(groups, await chooseGroupsWithOwnSearch(groups, count));

describe('the search plan', () => {
  it('has one search for document groups that differ only in fusion', async () => {
    const alike = [group({}), group({ rrfK: 1 }), group({ rrfK: 2 })];
    const others = [group({ mode: 'vector' }), group({ vectorLimit: 9 }), group({}, 'model-b')];
    const searches = await plan([...alike, ...others]);
    expect(searches.map(({ groups }) => groups)).deep.equal([alike, ...others.map((each) => [each])]);
    expect(new Set(searches.map(({ key }) => key))).length(4);
  });

  it('searches the largest document groups by their own settings, and the others together per model', async () => {
    const groups = Array.from({ length: maxGroupsSearchedByOwnSettings + 10 }, (_, index) => {
      return group({ mode: 'word_match', wordMatchLimit: index + 1, rrfK: 9 }, index % 2 ? 'model-a' : 'model-b');
    });
    const sizes = new Map(groups.map(({ signature }, index) => [signature, index]));
    // The documents of the first group have been deleted since.
    const counted = new Map([...sizes].slice(1));
    const searches = await plan(groups, async () => counted);
    const again = await chooseGroupsWithOwnSearch(groups.toReversed(), async () => counted);
    expect(again).deep.equal(await chooseGroupsWithOwnSearch(groups, async () => counted));
    expect(searches).length(maxGroupsSearchedByOwnSettings + 2);
    expect(searches.flatMap((search) => search.groups.map(({ signature }) => signature))).members([...sizes.keys()]);
    const together = searches.filter((search) => search.groups.length > 1);
    expect(together.map(({ embeddingModel }) => embeddingModel)).members(['model-a', 'model-b']);
    for (const { settings, groups: members } of together) {
      expect(settings).include({ mode: 'hybrid', wordMatchLimit: 50 });
      for (const { signature, settings: own } of members) {
        expect(own.rrfK).equal(60);
        expect(sizes.get(signature)).below(10);
      }
    }
  });
});
