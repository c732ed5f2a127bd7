import { buffer } from 'node:stream/consumers';
import yauzl from 'yauzl';

/** The parts of a document that is an archive. Only what is asked for is inflated; pictures never are. */
export type ZipParts = {
  names: string[];
  /** Null when there is no such part. Names are told apart without regard to case, as packages want it. */
  read(name: string): Promise<Buffer | null>;
};

/** The archive was checked before: it is whole, and no bomb. */
export async function openZipParts(bytes: Buffer): Promise<ZipParts> {
  const zip = await yauzl.fromBufferPromise(bytes);
  const entries = new Map<string, yauzl.Entry>();
  for await (const entry of zip.eachEntry()) entries.set(entry.fileName.toLowerCase(), entry);
  return {
    names: [...entries.values()].map((entry) => entry.fileName),
    async read(name) {
      const entry = entries.get(name.toLowerCase());
      return entry ? buffer(await zip.openReadStreamPromise(entry)) : null;
    },
  };
}
