import { expect } from 'chai';
import { addedToScope } from '#src/domain/retrieval/document-scope.ts';

describe('a changed document scope', () => {
  const scope = { folderIds: ['a', 'b'], documentIds: ['x', 'y'] };

  it('adds everything to an agent without a scope', () => {
    expect(addedToScope(scope, null)).deep.equal(scope);
  });

  it('adds only folders and documents that the scope before it lacks, each in its own list', () => {
    const before = { folderIds: ['a', 'x'], documentIds: ['y', 'b'] };
    expect(addedToScope(scope, before)).deep.equal({ folderIds: ['b'], documentIds: ['x'] });
    expect(addedToScope(scope, scope)).deep.equal({ folderIds: [], documentIds: [] });
  });
});
