import { expect } from 'chai';
import { createUnigramTokenizer } from './unigram-tokenizer.ts';

/** The pieces of multilingual-e5-small for the words of these tests, most likely first, with their scores. */
const entries = `
▁-3.93 а-7.06 и-7.44 у-7.54 о-8.06 т-8.14 н-8.37 но-8.58 ▁о-8.63 л-8.89 ла-8.9 ти-9.04 ж-9.32 ну-9.42 ь-9.5 ат-9.5
п-9.53 ть-9.57 น-10.12 นี้-10.28 ง-10.42 บ-10.51 ить-10.57 ร-10.71 ช-10.93 ит-10.99 ห-11.1 ▁нужно-11.14 ати-11.21
้-11.28 จ-11.3 ▁оп-11.31 า-11.38 ะ-11.38 лат-11.69 оп-11.72 ▁ну-11.88 ▁н-12.07 ใบ-12.11 ระ-12.12 пла-12.12 жно-12.37
แ-12.38 уж-12.4 ี-12.41 плат-12.44 แจ้ง-12.44 ้ง-12.58 นี-12.61 หน-12.71 ▁ช-12.82 пл-12.87 ํา-13.1 лати-13.15
หนี-13.33 แจ-13.41 าร-13.43 ▁оплати-13.44 плати-13.55 ํ-13.72 ใ-13.8 ชําระ-13.84 หนี้-14.02`
  .trim()
  .split(/\s+/)
  .map((entry): [string, number] => {
    const [piece = '', score] = entry.split('-');
    return [piece, -Number(score)];
  });
const special = ['<s>', '<pad>', '</s>', '<unk>'];
const pieces = [...special, ...entries.map(([piece]) => piece)];
const tokenIds = createUnigramTokenizer({
  pieces,
  scores: Float32Array.from([0, 0, 0, 0, ...entries.map(([, score]) => score)]),
  special: new Set([0, 1, 2, 3]),
  ...{ begin: 0, end: 2, unknown: 3 },
  replacements: new Map([
    ['ำ', 'ํา'],
    ['\u200b', ' '],
    ['\u0007', ''],
  ]),
});

describe('the unigram tokenizer', () => {
  // SentencePiece 0.2 gives these ids with the same vocabulary.
  for (const [what, text, ids] of [
    ['splits words into their most likely pieces', 'нужно оплатить', [31, 61, 21]],
    ['splits a text without spaces', 'ชำระใบแจ้งหนี้', [4, 65, 42, 50, 66]],
    ['joins neighbouring unknown characters', 'нужно ☃☂ жа', [31, 4, 3, 4, 16, 5]],
    ['reads an unknown mark by itself', 'ла\u0301ть', [4, 14, 3, 21]],
  ] as const) {
    it(what, () => expect(tokenIds(text)).to.deep.equal(ids));
  }

  it('reads the name of a special token as characters', () => {
    expect(tokenIds('<s>нужно').slice(0, 2)).to.deep.equal([4, 3]);
    expect(tokenIds(special.join(' '))).to.not.include.members([0, 1, 2]);
  });

  it('splits at every white space, replaces what SentencePiece replaces, and accepts half of a pair', () => {
    expect(tokenIds('\t нужно\u200bну\u0007жно \n')).to.deep.equal([31, 31]);
    expect(tokenIds('а\ud83d')).to.deep.equal([4, 5, 3]);
    expect(tokenIds(' \n')).to.deep.equal([]);
  });
});
