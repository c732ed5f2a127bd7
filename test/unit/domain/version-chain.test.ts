import { expect } from 'chai';
import fc from 'fast-check';
import {
  type DraftVersionLink,
  descendantVersions,
  planVersionCommit,
  planVersionRemoval,
  versionTitleOrDefault,
} from '#src/domain/agents/drafts.ts';

/** Applies commits the way the service does and returns the chain. */
function applyCommits(commits: readonly { parent: number; force: boolean }[]): DraftVersionLink[] {
  let chain: DraftVersionLink[] = [{ id: 'v1', parentVersionId: null }];
  let nextNumber = 2;
  for (const { parent, force } of commits) {
    const parentVersionId = chain[parent % chain.length]?.id ?? 'v1';
    const plan = planVersionCommit(chain, parentVersionId, force);
    if (plan.outcome !== 'commit') continue;
    chain = chain.filter((link) => !plan.deletedIds.includes(link.id));
    chain.push({ id: `v${nextNumber++}`, parentVersionId });
  }
  return chain;
}

const commits = fc.array(fc.record({ parent: fc.nat(20), force: fc.boolean() }), { maxLength: 60 });

describe('the chain of versions', () => {
  const chain: DraftVersionLink[] = [
    { id: 'c', parentVersionId: 'b' },
    { id: 'a', parentVersionId: null },
    { id: 'b', parentVersionId: 'a' },
  ];

  it('commits under the head', () => {
    expect(planVersionCommit(chain, 'c', false)).to.deep.equal({ outcome: 'commit', deletedIds: [] });
  });

  it('rejects a parent with descendants', () => {
    expect(planVersionCommit(chain, 'a', false).outcome).to.equal('parent_has_descendants');
  });

  it('deletes all descendants of the parent by force', () => {
    expect(planVersionCommit(chain, 'a', true)).to.deep.equal({ outcome: 'commit', deletedIds: ['b', 'c'] });
  });

  it('rejects a parent of another draft', () => {
    expect(planVersionCommit(chain, 'x', true).outcome).to.equal('parent_missing');
  });

  it('moves the child of a removed version to its parent', () => {
    expect(planVersionRemoval(chain, 'b')).to.deep.equal({
      outcome: 'remove',
      childId: 'c',
      parentId: 'a',
      headId: 'c',
    });
    expect(planVersionRemoval(chain, 'a')).to.deep.equal({
      outcome: 'remove',
      childId: 'b',
      parentId: null,
      headId: 'c',
    });
  });

  it('ends at the parent of a removed head', () => {
    expect(planVersionRemoval(chain, 'c')).to.deep.equal({
      outcome: 'remove',
      childId: null,
      parentId: 'b',
      headId: 'b',
    });
  });

  it('keeps its last version', () => {
    expect(planVersionRemoval([{ id: 'a', parentVersionId: null }], 'a').outcome).to.equal('last_version');
    expect(planVersionRemoval(chain, 'x').outcome).to.equal('version_missing');
  });

  it('stays linear after random commits', () => {
    fc.assert(
      fc.property(commits, (sequence) => {
        const result = applyCommits(sequence);
        const roots = result.filter((link) => link.parentVersionId === null);
        expect(roots).to.have.length(1);
        expect(descendantVersions(result, 'v1')).to.have.length(result.length - 1);
      }),
    );
  });

  it('gives a child a higher number than its parent, and no number twice', () => {
    fc.assert(
      fc.property(commits, (sequence) => {
        const numbers = applyCommits(sequence).map((link) => Number(link.id.slice(1)));
        expect(numbers).to.deep.equal([...new Set(numbers)].sort((a, b) => a - b));
      }),
    );
  });

  it('titles a version by its number if the title is missing or blank', () => {
    expect([
      versionTitleOrDefault(undefined, 4),
      versionTitleOrDefault('  ', 4),
      versionTitleOrDefault(' Calm tone ', 4),
    ]).to.deep.equal(['v4', 'v4', 'Calm tone']);
  });
});
