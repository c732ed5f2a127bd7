import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import calibrations from '#src/domain/alignment/calibrations.json' with { type: 'json' };
import { createRefusalDetector, nullUnlessLikelyRefusal, refusalKindOfRound } from '#src/domain/alignment/refusal.ts';
import weights from '#src/domain/alignment/refusal-weights.json' with { type: 'json' };
import { modelsWithAlignmentCalibration } from '#src/domain/alignment/score.ts';

describe('refusal detection', () => {
  const readRefusal = createRefusalDetector(createTextAnalyzer(), 'all-minilm-l6-v2-int8-r2');
  /** By words alone. */
  const detect = (reply: string) => nullUnlessLikelyRefusal(readRefusal(reply, null));

  const policy = [
    "I'm sorry, but I can't help with that.",
    'I cannot provide this information.',
    'Unfortunately, I am not able to assist with illegal activities.',
    'Thanks for asking! That is outside my scope. I can help with loans.',
  ];
  for (const reply of policy) {
    it(`decides by the wording of "${reply}"`, () =>
      expect(readRefusal(reply, null)).to.deep.equal({ kind: 'policy', score: 1, decidedBy: 'wording' }));
  }

  it('uses the model if no wording decides, and returns its probability', () => {
    const reply = 'As an AI language model, I do not have personal opinions or beliefs, and I do not have feelings.';
    const reading = readRefusal(reply, null);
    expect(reading).to.include({ kind: 'capability', decidedBy: 'model' });
    expect(reading.score).to.be.within(0.35, 0.65);
    expect(detect('Here are five tips for a good loan: compare offers, and read the contract.')).to.equal(null);
  });

  it('treats phrases of a lack of ability before an answer only as evidence', () => {
    const answer =
      'As a language model I have read a lot. Here are some ways to kill a Python process: 1. Use the kill command.';
    expect(readRefusal(answer, null)).to.include({ kind: 'capability', decidedBy: 'model' });
    expect(detect(answer)).to.equal(null);
  });

  it('uses an embedding if available', () => {
    const reply = 'Let us rather talk about something else.';
    const withVector = readRefusal(reply, new Float32Array(384).fill(0.05));
    expect(withVector.score).to.not.equal(readRefusal(reply, null).score);
  });

  it('ignores the vectors of a model that it was not fitted to', () => {
    const reply = 'Let us rather talk about something else.';
    const ofOther = createRefusalDetector(createTextAnalyzer(), 'another-model');
    expect(ofOther(reply, new Float32Array(384).fill(0.05))).to.deep.equal(readRefusal(reply, null));
  });

  it('treats a reply that found nothing as an answer', () => {
    expect(readRefusal('I cannot find this in the documents.', null).decidedBy).to.equal('model');
    expect(detect('I cannot find this in the documents.')).to.equal(null);
  });

  it('finds no refusal in an answer or in later sentences of a reply', () => {
    expect(detect('The loan runs for two years.')).to.equal(null);
    expect(detect('I am sorry to hear that. Here is what to do. Call us. Then I cannot stop you.')).to.equal(null);
  });

  it('treats an empty reply as no refusal', () => {
    expect(detect('')).to.equal(null);
  });

  it('treats a probability of one half as a refusal', () => {
    expect(nullUnlessLikelyRefusal({ kind: 'policy', score: 0.5 })).to.deep.equal({ kind: 'policy', score: 0.5 });
    expect(nullUnlessLikelyRefusal({ kind: 'policy', score: 0.49 })).to.equal(null);
  });

  it('has kind scope if the user was off topic', () => {
    expect(refusalKindOfRound({ kind: 'policy', score: 1 }, 'off')).to.equal('scope');
    expect(refusalKindOfRound({ kind: 'policy', score: 1 }, 'on')).to.equal('policy');
  });
});

describe('the fitted refusal weights', () => {
  it('contain a weight for each feature, and name their data and model', () => {
    expect(weights.rarity).to.have.length(weights.grams.length);
    // Two counts of phrases, the embedding, and the intercept.
    expect(weights.weights).to.have.length(weights.grams.length + 2 + 384 + 1);
    expect(weights.weightsOfWords).to.have.length(weights.grams.length + 2 + 1);
    expect(modelsWithAlignmentCalibration).to.include(weights.modelId);
    for (const { sources } of [weights, ...calibrations]) {
      expect(sources.length).to.be.greaterThan(1);
      for (const { sha256 } of sources) expect(sha256).to.match(/^[\da-f]{64}$/);
    }
  });

  it('were fitted with the shipped idf table', () => {
    const table = readFileSync(new URL('../../../src/domain/alignment/idf-table.json', import.meta.url));
    const recorded = calibrations.flatMap(({ sources }) => sources).find(({ path }) => path.endsWith('idf-table.json'));
    expect(createHash('sha256').update(table).digest('hex')).to.equal(recorded?.sha256);
  });

  it('reach the required quality on held-out data', () => {
    for (const { quality } of calibrations) {
      expect(quality.meanAuc).to.be.at.least(0.945);
      expect(quality.worstAuc).to.be.at.least(0.9);
      expect(quality.calibrationError).to.be.at.most(0.05);
    }
    const { f1, worstF1, falseRefusals } = weights.quality.withEmbedding;
    expect(f1).to.be.at.least(0.94);
    expect(worstF1).to.be.at.least(0.72);
    expect(falseRefusals).to.be.at.most(0.05);
  });
});
