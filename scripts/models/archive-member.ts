import { open, type ZipFile } from 'yauzl';
import { SourceFailure } from './fetch-failure.ts';

export async function* archiveMember(archivePath: string, member: string): AsyncGenerator<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<AsyncIterable<Buffer>>();
  let archive: ZipFile | undefined;
  open(archivePath, { lazyEntries: true, autoClose: false }, (error, opened) => {
    if (error) return reject(error);
    archive = opened;
    opened.on('error', reject);
    opened.on('end', () => reject(new SourceFailure(`the archive ${archivePath} has no file ${member}`)));
    opened.on('entry', (entry) => {
      if (entry.fileName !== member) return opened.readEntry();
      opened.openReadStream(entry, (cause, stream) => (cause ? reject(cause) : resolve(stream)));
    });
    opened.readEntry();
  });
  try {
    yield* await promise;
  } finally {
    // yauzl closes an archive only after its last entry, and an open file takes disk space even after it was deleted.
    archive?.close();
  }
}
