import { expect } from 'chai';
import { cleanParsedDocument } from '#src/adapters/converter/parsed-document.ts';

describe('cleanParsedDocument', () => {
  it('gives each page the offset at which its cleaned text starts', () => {
    const { body, pageMap } = cleanParsedDocument({
      body: ['\n# One\r\n\n\n\nwords  ', '# Two\u200b', 'Three'],
      title: null,
    });
    expect(body).to.equal('# One\n\nwords\n\n# Two\n\nThree');
    expect(pageMap).to.eql([0, body.indexOf('# Two'), body.indexOf('Three')]);
  });

  it('counts empty pages', () => {
    const { body, pageMap } = cleanParsedDocument({ body: ['', 'Two', ' \n', 'Four', ''], title: null });
    expect(body).to.equal('Two\n\nFour');
    expect(pageMap).to.eql([0, 0, 3, 5, 9]);
  });

  it('returns no page map for a format without pages', () => {
    expect(cleanParsedDocument({ body: ' words \n', title: 'T' })).to.eql({
      body: ' words',
      pageMap: null,
      title: 'T',
    });
  });
});
