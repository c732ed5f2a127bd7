import { createHash, randomUUID } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import { createOriginalFileCopies, readOriginalsList } from '#src/modules/backup/original-copies.ts';
import { collect } from '#test/support/collect.ts';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

describe('the backup folder of originals', () => {
  const pathOf = useTemporaryFolder();
  let copies: ReturnType<typeof createOriginalFileCopies>;
  beforeEach(() => {
    copies = createOriginalFileCopies(pathOf());
  });

  it('stores content that matches its key, and rejects other content', async () => {
    const organization = randomUUID();
    const key = `${organization}/${sha256('Whales')}`;
    const copy = { key, sizeBytes: 6, sha256: sha256('Whales') };
    expect(await copies.add(key, Readable.from([Buffer.from('Wha'), Buffer.from('les')]))).deep.equal(copy);
    expect(await copies.find(key)).deep.equal(copy);
    const other = `${organization}/${sha256('Ships')}`;
    expect(await copies.add(other, Readable.from([Buffer.from('Shops')]))).equal(null);
    expect(await copies.find(other)).equal(null);
    expect(await readdir(pathOf('incoming'))).deep.equal([]);
  });

  it('computes a hash that the key lacks, keeps no incomplete copy, and rejects a key that is a path', async () => {
    const older = `${randomUUID()}/${randomUUID()}`;
    await copies.add(older, Readable.from([Buffer.from('Tides')]));
    expect(await copies.find(older)).deep.equal({ key: older, sizeBytes: 5, sha256: sha256('Tides') });
    const key = `${randomUUID()}/${sha256('x')}`;
    async function* broken() {
      yield Buffer.from('x');
      throw new Error('connection lost');
    }
    const outcome = await copies.add(key, Readable.from(broken())).catch((error: Error) => error.message);
    expect([outcome, await copies.find(key)]).deep.equal(['connection lost', null]);
    expect(() => copies.pathOf('../../etc/passwd')).throw('is not the blob key of an original');
  });

  it('deletes copies that no list contains', async () => {
    const keys = ['a', 'b', 'c', 'd', 'e'].map((text) => ({ text, key: `${randomUUID()}/${sha256(text)}` }));
    keys.sort((a, b) => (a.key < b.key ? -1 : 1));
    for (const { text, key } of keys) await copies.add(key, Readable.from([Buffer.from(text)]));
    const list = async (name: string, places: readonly number[]) => {
      const listed = keys.filter((_, place) => places.includes(place));
      const lines = listed.map(({ text, key }) => JSON.stringify({ key, sizeBytes: 1, sha256: sha256(text) }));
      await writeFile(pathOf(name), lines.map((line) => `${line}\n`).join(''));
      return pathOf(name);
    };
    const lists = [await list('first', [0, 3]), await list('second', [1, 3]), await list('third', [])];
    expect(await copies.deleteUnlisted(lists)).equal(2);
    const left = await Promise.all(keys.map(async ({ key }) => (await copies.find(key)) !== null));
    expect(left).deep.equal([true, true, false, true, false]);
    expect(await collect(readOriginalsList(pathOf('first')))).lengthOf(2);
  });
});
