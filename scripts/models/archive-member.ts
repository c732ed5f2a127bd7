import { open } from 'yauzl';
import { SourceFailure } from './fetch-failure.ts';

/** The content of one file in a ZIP archive (a wheel, a jar). */
export async function* archiveMember(archivePath: string, member: string): AsyncGenerator<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<AsyncIterable<Buffer>>();
  open(archivePath, { lazyEntries: true }, (error, archive) => {
    if (error) return reject(error);
    archive.on('error', reject);
    archive.on('end', () => reject(new SourceFailure(`${archivePath} has no ${member}`)));
    archive.on('entry', (entry) => {
      if (entry.fileName !== member) return archive.readEntry();
      archive.openReadStream(entry, (cause, stream) => (cause ? reject(cause) : resolve(stream)));
    });
    archive.readEntry();
  });
  yield* await promise;
}
