import { open, type ZipFile } from 'yauzl';
import { SourceFailure } from './fetch-failure.ts';

/** The content of one file in a ZIP archive (a wheel, a jar). */
export async function* archiveMember(archivePath: string, member: string): AsyncGenerator<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<AsyncIterable<Buffer>>();
  let archive: ZipFile | undefined;
  open(archivePath, { lazyEntries: true, autoClose: false }, (error, opened) => {
    if (error) return reject(error);
    archive = opened;
    opened.on('error', reject);
    opened.on('end', () => reject(new SourceFailure(`${archivePath} has no ${member}`)));
    opened.on('entry', (entry) => {
      if (entry.fileName !== member) return opened.readEntry();
      opened.openReadStream(entry, (cause, stream) => (cause ? reject(cause) : resolve(stream)));
    });
    opened.readEntry();
  });
  try {
    yield* await promise;
  } finally {
    // The library does so only behind the last entry, and a deleted file that is open still fills the disk.
    archive?.close();
  }
}
