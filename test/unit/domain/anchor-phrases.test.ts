import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { topicPhrasesOf } from '#src/domain/alignment/anchor-words.ts';

const analyze = createTextAnalyzer();
const phrasesIn = (...texts: string[]) => topicPhrasesOf(texts, analyze).map(({ phrase }) => phrase);

describe('topic phrases of a text', () => {
  it('are adjacent content words, up to three', () => {
    expect(phrasesIn('We sell the red rubber boats.')).have.members([
      ...['red', 'red rubber', 'red rubber boats', 'rubber', 'rubber boats', 'boats'],
    ]);
  });

  it('do not span stop words or punctuation', () => {
    expect(phrasesIn('About boats, oars and the sea')).include.members(['boats', 'oars', 'sea']).and.have.length(3);
  });

  it('do not contain verbs of instructions', () => {
    expect(phrasesIn('Explain routes. You diagnose flaps, and never guess.')).have.members(['routes', 'flaps']);
  });

  it('are counted by their stems, with the most frequent and the rarest first', () => {
    const phrases = topicPhrasesOf(['A boat. The boats of a flumbrium.', 'My boats'], analyze);
    expect(phrases.find(({ phrase }) => phrase.startsWith('boat'))).include({ count: 3 });
    expect(phrasesIn('The time and the flumbrium')).deep.equal(['flumbrium', 'time']);
  });

  it('are found in other scripts, and keep the case of abbreviations', () => {
    expect(phrasesIn('Ты готовишь борщ.')).include('готовишь борщ');
    expect(phrasesIn('About BGP and Routers')).have.members(['BGP', 'routers']);
  });

  it('are at most eighty of a long text', () => {
    const text = Array.from({ length: 5_000 }, (_, n) => `word${n} `).join('');
    expect(phrasesIn(text)).length(80);
  });
});
