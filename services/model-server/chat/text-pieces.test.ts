import { expect } from 'chai';
import { createTextPieces } from './text-pieces.ts';

describe('the streamed text of a local chat model', () => {
  function send(stops: string[], pieces: string[]): { out: string[]; stopped: boolean } {
    const out: string[] = [];
    const text = createTextPieces(stops, (piece) => out.push(piece));
    const stopped = pieces.map((piece) => text.push(piece)).some(Boolean);
    text.end();
    return { out, stopped };
  }

  it('is passed on at once if the request has no stop strings', () => {
    expect(send([], ['a', 'b'])).to.deep.equal({ out: ['a', 'b'], stopped: false });
  });

  it('ends before a stop string that arrives in pieces', () => {
    const { out, stopped } = send(['END'], ['one E', 'N', 'D two']);
    expect(out.join('')).to.equal('one ');
    expect(stopped).to.equal(true);
  });

  it('includes text that only looked like the beginning of a stop string', () => {
    expect(send(['END'], ['one E', 'N', 'ough']).out).to.deep.equal(['one ', 'ENough']);
    expect(send(['END'], ['the E', 'N']).out.join('')).to.equal('the EN');
  });

  it('ends at the first of several stop strings', () => {
    expect(send(['###', '\n\n'], ['a\n\nb###']).out.join('')).to.equal('a');
  });
});
