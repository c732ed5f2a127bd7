import { expect } from 'chai';
import { filesOf, shardFiles } from '../../../scripts/test/levels.ts';

describe('shards of tests', () => {
  const files = filesOf('everyday');
  const shards = shardFiles(files, 3);

  it('run each file once', () => {
    expect(shards.flat()).length(files.length).and.have.members(files);
    expect(new Set(shards.flat()).size).equal(files.length);
  });

  it('run unit tests, which may mock timers, before any stack starts', () => {
    for (const shard of shards) {
      const firstOther = shard.findIndex((file) => !file.startsWith('test/unit/'));
      expect(shard.slice(firstOther).filter((file) => file.startsWith('test/unit/'))).deep.equal([]);
    }
  });

  it('are the same each time, and no more than there are files', () => {
    expect(shardFiles(files.toReversed(), 3)).deep.equal(shards);
    expect(shardFiles(['b.test.ts', 'a.test.ts'], 3)).deep.equal([['a.test.ts'], ['b.test.ts']]);
  });
});
