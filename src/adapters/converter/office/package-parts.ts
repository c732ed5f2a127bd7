import { posix } from 'node:path';
import { buffer } from 'node:stream/consumers';
import yauzl from 'yauzl';
import { statedTitle } from '../parsed-document.ts';
import { childAt, childrenNamed, parseXml, textOf, type XmlElement, type XmlTaker } from './xml.ts';

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

/** How a part of an Office package names another one. `type` is the last word of the address that tells the kind. */
export type Relationship = { id: string; type: string; target: string; isExternal: boolean };

export async function readXmlPart(parts: ZipParts, name: string, taker?: XmlTaker): Promise<XmlElement | undefined> {
  const bytes = await parts.read(name);
  return bytes ? parseXml(bytes, taker) : undefined;
}

/** Targets are names of parts, or addresses outside the file. The part '' is the package itself. */
export async function readRelationships(parts: ZipParts, partName: string): Promise<Relationship[]> {
  const { dir, base } = posix.parse(partName);
  const root = await readXmlPart(parts, posix.join(dir, '_rels', `${base}.rels`));
  return childrenNamed(root, 'Relationship').map(({ attributes }) => {
    const isExternal = attributes.TargetMode === 'External';
    const target = attributes.Target ?? '';
    return {
      id: attributes.Id ?? '',
      type: attributes.Type?.split('/').at(-1) ?? '',
      target: isExternal ? target : posix.resolve('/', dir, target).slice(1),
      isExternal,
    };
  });
}

/** The part that holds the text, wherever it is. */
export async function mainPartName(parts: ZipParts, usualName: string): Promise<string> {
  const named = (await readRelationships(parts, '')).find(({ type }) => type === 'officeDocument')?.target;
  return named ?? usualName;
}

/** The title among the properties of an Office file; null when nobody gave one. */
export async function packageTitle(parts: ZipParts): Promise<string | null> {
  const core = (await readRelationships(parts, '')).find(({ type }) => type === 'core-properties')?.target;
  const root = await readXmlPart(parts, core ?? 'docProps/core.xml');
  return statedTitle(textOf(childAt(root, 'dc:title')));
}
