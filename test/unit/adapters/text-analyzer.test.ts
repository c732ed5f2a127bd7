import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { contentStems } from '#src/domain/text/words.ts';

describe('text analyzer', () => {
  const analyze = createTextAnalyzer();

  it('lower-cases, splits on anything but letters and digits, and stems', () => {
    expect(analyze('Booking FLIGHTS, re-booked in 2024!').map((term) => term.stem)).to.deep.equal([
      'book',
      'flight',
      're',
      'book',
      'in',
      '2024',
    ]);
  });

  it('marks stop-words, also the halves of contractions', () => {
    expect(contentStems(analyze("I don't want the loans"))).to.deep.equal(['want', 'loan']);
  });

  it('keeps words of other scripts', () => {
    expect(contentStems(analyze('Über 世界 Ｆｕｌｌ'))).to.deep.equal(['über', '世界', 'full']);
  });
});
