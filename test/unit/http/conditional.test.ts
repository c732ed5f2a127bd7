import { expect } from 'chai';
import { createETag, matchesETag } from '#src/http/request/headers.ts';

describe('entity tags', () => {
  const tag = createETag('{"a":1}');

  it('are equal only for equal bodies', () => {
    expect(createETag('{"a":1}')).to.equal(tag);
    expect(createETag('{"a":2}')).not.to.equal(tag);
    expect(tag).to.match(/^"[\w-]{22}"$/);
  });

  it('match in a list, when weakened by a proxy, and for *', () => {
    expect(matchesETag(`"other", ${tag}`, tag)).to.equal(true);
    expect(matchesETag(`W/${tag}`, tag)).to.equal(true);
    expect(matchesETag('*', tag)).to.equal(true);
    expect(matchesETag('"other"', tag)).to.equal(false);
  });
});
