import { expect } from 'chai';
import { createTextPieces } from './text-pieces.ts';

describe('createTextPieces', () => {
  function send(stops: string[], pieces: string[]): { out: string[]; stopped: boolean } {
    const out: string[] = [];
    const text = createTextPieces(stops, (piece) => out.push(piece));
    const stopped = pieces.map((piece) => text.push(piece)).some(Boolean);
    text.end();
    return { out, stopped };
  }

  it('passes on text without stop strings at once', () => {
    expect(send([], ['a', 'b'])).to.deep.equal({ out: ['a', 'b'], stopped: false });
  });

  it('ends the text before a stop string that arrives in pieces', () => {
    const { out, stopped } = send(['END'], ['one E', 'N', 'D two']);
    expect(out.join('')).to.equal('one ');
    expect(stopped).to.equal(true);
  });

  it('passes on text that only looked like the beginning of a stop string', () => {
    expect(send(['END'], ['one E', 'N', 'ough']).out).to.deep.equal(['one ', 'ENough']);
    expect(send(['END'], ['the E', 'N']).out.join('')).to.equal('the EN');
  });

  it('ends the text at the first of several stop strings', () => {
    expect(send(['###', '\n\n'], ['a\n\nb###']).out.join('')).to.equal('a');
  });
});
