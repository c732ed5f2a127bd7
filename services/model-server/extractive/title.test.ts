import { expect } from 'chai';
import { createTitle } from './title.ts';

describe('writing a title without a model', () => {
  it('drops the punctuation around a title, but keeps punctuation inside and a final question mark', () => {
    expect(createTitle('  "what is U.S. law?!" ')).to.equal('What is U.S. law?');
    expect(createTitle('?!')).to.equal('Conversation');
    expect(createTitle('(a)')).to.equal('A');
  });
});
