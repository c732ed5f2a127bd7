import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { measureAnchorFit, selectBetterAnchorWords, textsForAnchorFit } from '#src/domain/alignment/anchor-fit.ts';
import { alignmentCalibrationFor } from '#src/domain/alignment/score.ts';

const analyze = createTextAnalyzer();
const calibration = alignmentCalibrationFor('all-minilm-l6-v2-int8-r2');
const stemsOf = (text: string) => analyze(text).map(({ stem }) => stem);
/** Subjects are axes of the embedding space, so that words and texts of a subject have a cosine of 1. */
const subjects = ['pump', 'leave', 'mail', 'sport'] as const;
type Subject = (typeof subjects)[number];
const vectorOf = (subject: Subject) => Float32Array.from(subjects, (each) => (each === subject ? 1 : 0));
const textAbout = (subject: Subject, text = 'unheard') => ({ stems: stemsOf(text), vector: vectorOf(subject) });
const word = (text: string, subject: Subject) => ({ word: text, weight: 5, ...textAbout(subject, text) });

describe('the fit of anchor words', () => {
  it('is the share of texts on topic, with the words first that bring most texts there', () => {
    const texts = [textAbout('pump'), textAbout('leave'), textAbout('leave'), textAbout('mail')];
    const anchors = [word('impeller', 'pump'), word('vacation', 'leave'), word('football', 'sport')];
    expect(measureAnchorFit(texts, anchors, calibration)).deep.equal({
      share: 0.75,
      helpfulWords: ['vacation', 'impeller'],
    });
    expect(measureAnchorFit(texts, [word('football', 'sport')], calibration)).deep.equal({
      share: 0,
      helpfulWords: [],
    });
  });

  it('improves by words for the texts that the present words miss, the most needed first', () => {
    const texts = [textAbout('pump'), textAbout('leave'), textAbout('leave'), textAbout('mail')];
    const candidates = [word('trophy', 'sport'), word('valve', 'pump'), word('inbox', 'mail'), word('leave', 'leave')];
    const better = selectBetterAnchorWords(texts, [word('impeller', 'pump')], candidates, calibration);
    expect(better).deep.equal(['leave', 'inbox', 'valve', 'trophy']);
    const many = Array.from({ length: 40 }, (_, index) => word(`word ${index}`, 'sport'));
    expect(selectBetterAnchorWords(texts, [], many, calibration)).length(32);
  });

  it('is tried on golden prompts, the persona and sentences of passages, those of all documents before second ones', () => {
    const sentence = (n: number | string) => `Sentence ${n} tells customers something about pumps.`;
    const passages = [
      { documentId: 'a', content: `# Heading\n${sentence(1)} Short one. ${sentence(2)} ${sentence(3)}` },
      { documentId: 'a', content: sentence(4) },
      { documentId: 'b', content: `${sentence(5)} ${'A very long sentence goes on and on'.repeat(10)}.` },
    ];
    const agent = { agentPrompt: ` You explain pumps. ${'x'.repeat(400)}`, goldenPrompts: ['How?', ''], passages };
    const texts = textsForAnchorFit(agent, analyze);
    expect([texts[0], ...texts.slice(2)]).deep.equal(['How?', ...[1, 2, 3, 5, 4].map(sentence)]);
    expect(texts[1]).match(/^You explain pumps\. x{280}$/);

    const goldenPrompts = Array.from({ length: 40 }, (_, index) => `Question ${index}`);
    const content = Array.from({ length: 40 }, (_, index) => sentence(index)).join(' ');
    const bounded = textsForAnchorFit({ ...agent, goldenPrompts, passages: [{ documentId: 'a', content }] }, analyze);
    expect(bounded).length(20);
    expect(bounded[9]).equal('Question 9');
    expect(bounded[11]).equal(sentence(2));
    expect(bounded.at(-1)).equal(sentence(37));
  });
});
