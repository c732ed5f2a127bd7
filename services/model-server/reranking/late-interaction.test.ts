import { expect } from 'chai';
import type { Match } from '../embedding/embedder.ts';
import { lateInteraction } from './late-interaction.ts';
import { wordScores } from './word-scores.ts';

/** A fake embedder with fixed closeness and similarity for each text; the vector of a question is [1, 0]. */
function modelOf(matches: Record<string, { closeness: number; similarity: number }>) {
  const vectorOf = (similarity: number) => Float32Array.from([similarity, Math.sqrt(1 - similarity ** 2)]);
  return {
    embed: async (texts: string[]) => texts.map(() => ({ vector: vectorOf(1), tokens: 2 })),
    match: async (_query: string, texts: string[]): Promise<Match[]> =>
      texts.map((text) => {
        const { closeness, similarity } = matches[text] ?? { closeness: 0, similarity: 0 };
        return { closeness, vector: vectorOf(similarity), tokens: 10 };
      }),
  };
}

const signal = new AbortController().signal;

describe('reranking by late interaction', () => {
  it('scores a passage higher if its tokens, its whole text or its words are closer to the question', async () => {
    const rank = lateInteraction(
      modelOf({
        'ships at sea': { closeness: 0.5, similarity: 0.5 },
        'a tax on salt': { closeness: 0.5, similarity: 0.6 },
        'the tax on salt': { closeness: 0.6, similarity: 0.6 },
      }),
    );
    const { scores, tokens } = await rank('the tax', ['ships at sea', 'a tax on salt', 'the tax on salt'], signal);
    expect(scores).deep.equal(scores.toSorted((a, b) => a - b));
    for (const score of scores) expect(score).within(0, 1);
    expect(tokens).equal(30);
  });

  it('gives equal passages, and a single passage, the score 0.5', async () => {
    const rank = lateInteraction(modelOf({}));
    expect((await rank('tax', ['salt'], signal)).scores).deep.equal([0.5]);
    expect((await rank('tax', ['salt', 'salt'], signal)).scores).deep.equal([0.5, 0.5]);
  });
});

describe('the score of words that a question shares with passages', () => {
  it('is higher for words in fewer passages and for shorter passages, and counts all forms of a word', () => {
    const [rare = 0, common = 0, none = 0] = wordScores('salt tax', ['salt mine', 'tax office', 'the sea', 'tax year']);
    expect(rare).above(common);
    expect(common).above(none);
    expect(none).equal(0);
    const [short = 0, long = 0] = wordScores('taxing', ['Taxes rise.', 'Taxes rise and ships sail to far harbours.']);
    expect(short).above(long);
    expect(long).above(0);
    expect(wordScores('what is it', ['it is', '']), 'stop words').deep.equal([0, 0]);
  });
});
