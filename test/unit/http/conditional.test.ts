import { expect } from 'chai';
import { entityTag, namesTag } from '#src/http/request/headers.ts';

describe('entity tags', () => {
  const tag = entityTag('{"a":1}');

  it('are equal for the same body only', () => {
    expect(entityTag('{"a":1}')).to.equal(tag);
    expect(entityTag('{"a":2}')).not.to.equal(tag);
    expect(tag).to.match(/^"[\w-]{22}"$/);
  });

  it('are found in a list, as weakened by a proxy, and by a star', () => {
    expect(namesTag(`"other", ${tag}`, tag)).to.equal(true);
    expect(namesTag(`W/${tag}`, tag)).to.equal(true);
    expect(namesTag('*', tag)).to.equal(true);
    expect(namesTag('"other"', tag)).to.equal(false);
  });
});
