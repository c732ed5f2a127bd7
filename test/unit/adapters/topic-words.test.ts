import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createTopicWordIndex } from '#src/adapters/text/topic-words.ts';
import { cosineSimilarity, modelsWithAlignmentCalibration } from '#src/domain/alignment/score.ts';
import { contentStems } from '#src/domain/text/words.ts';

describe('the packaged list of topic words', () => {
  for (const model of modelsWithAlignmentCalibration) {
    it(`has vectors of ${model}, which alignment scores with`, async () => {
      const words = createTopicWordIndex({ model });
      const [planet] = (await words.nearest(() => 0, 20_000)).filter(({ word }) => word === 'planet');
      if (planet === undefined) throw new Error('it has no planet');
      const near = await words.nearest((vector) => cosineSimilarity(vector, planet.vector), 20);
      expect(near[0]?.word).equal('planet');
      expect(near.map(({ word }) => word)).include.members(['exoplanet', 'solar system']);
    });

    it('has thousands of distinct words with content', async () => {
      const analyze = createTextAnalyzer();
      const words = (await createTopicWordIndex({ model }).nearest(() => 0, 20_000)).map(({ word }) => word);
      expect(words).length.above(10_000);
      expect(new Set(words).size).equal(words.length);
      expect(words.filter((word) => contentStems(analyze(word)).length === 0 || analyze(word).length > 3)).deep.equal(
        [],
      );
    });
  }

  it('rejects a model without packaged vectors', async () => {
    const error: unknown = await createTopicWordIndex({ model: 'another' })
      .nearest(() => 0, 1)
      .catch((fault: unknown) => fault);
    expect(error).instanceOf(Error);
  });
});
