import { expect } from 'chai';
import { createTextPieces } from './text-pieces.ts';

describe('the streamed text of a local chat model', () => {
  it('ends before the first stop string, even if the stop string arrives in pieces, and is otherwise complete', () => {
    const cases: [stops: string[], pieces: string[], sent: string[], hasStopped: boolean][] = [
      [[], ['a', 'b'], ['a', 'b'], false],
      [['END'], ['one E', 'N', 'D two'], ['one '], true],
      [['END'], ['one E', 'N', 'ough'], ['one ', 'ENough'], false],
      [['END'], ['the E', 'N'], ['the ', 'EN'], false],
      [['###', '\n\n'], ['a\n\nb###'], ['a'], true],
    ];
    for (const [stops, pieces, expected, hasStopped] of cases) {
      const sent: string[] = [];
      const text = createTextPieces(stops, (piece) => sent.push(piece));
      expect(pieces.map((piece) => text.push(piece)).some(Boolean), pieces.join('|')).to.equal(hasStopped);
      text.end();
      expect(sent).to.deep.equal(expected);
    }
  });
});
