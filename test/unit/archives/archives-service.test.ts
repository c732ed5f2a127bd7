import { mock } from 'node:test';
import { expect } from 'chai';
import { createArchivesService } from '#src/modules/archives/archives.service.ts';

describe('importing the files of an archive', () => {
  const of = { orgId: 'org', documentId: '019ac001-0000-7000-8000-000000000000', generation: 1 };
  const secondsPerFile = 20;
  let seconds = 0;
  let clock: { mock: { restore(): void } };
  before(() => {
    clock = mock.method(performance, 'now', () => 1_000 * seconds);
  });
  after(() => clock.mock.restore());

  const unused = () => Promise.reject(new Error('No file of this archive is imported.'));
  const archives = createArchivesService({
    blobs: { withLocalFile: (_key, read) => read('/archive') },
    converter: {
      async *readArchive() {
        for (const path of ['a', 'b', 'c', 'd', 'e', 'f']) {
          yield { path, sizeBytes: 1, refusal: 'it is a link', open: unused };
          seconds += secondsPerFile;
        }
      },
    },
    ingestion: { findArchive: async () => ({ blobKey: 'key', jobId: 'job', chunking: Object() }) },
    documents: { add: unused, isKnown: unused },
    documentLinks: { list: async () => [] },
    folderChanges: { ensurePath: unused },
    uploads: { store: unused, discard: unused },
    jobs: { advance: async () => Object(), find: async () => Object({ createdBy: 'ada' }) },
    findActor: async () => Object({ id: 'ada' }),
  });
  const importFrom = async (from: number) => {
    const { next, files } = await archives.importFiles({ ...of, from }, new AbortController());
    return { next, files };
  };

  it('ends a slice after half a minute, which begins with the first file that no earlier slice has imported', async () => {
    expect(await importFrom(0)).deep.equal({ next: 2, files: 2 });
    expect(await importFrom(2)).deep.equal({ next: 4, files: 2 });
    expect(await importFrom(4)).deep.equal({ next: null, files: 2 });
  });
});
