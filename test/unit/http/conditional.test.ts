import { expect } from 'chai';
import { entityTag, includesTag } from '#src/http/request/headers.ts';

describe('entity tags', () => {
  const tag = entityTag('{"a":1}');

  it('are equal only for equal bodies', () => {
    expect(entityTag('{"a":1}')).to.equal(tag);
    expect(entityTag('{"a":2}')).not.to.equal(tag);
    expect(tag).to.match(/^"[\w-]{22}"$/);
  });

  it('match in a list, when weakened by a proxy, and for *', () => {
    expect(includesTag(`"other", ${tag}`, tag)).to.equal(true);
    expect(includesTag(`W/${tag}`, tag)).to.equal(true);
    expect(includesTag('*', tag)).to.equal(true);
    expect(includesTag('"other"', tag)).to.equal(false);
  });
});
