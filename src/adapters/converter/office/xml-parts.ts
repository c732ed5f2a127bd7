import { posix } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { SaxesParser } from 'saxes';
import yauzl from 'yauzl';
import { decodeText, htmlEncoding } from '../decode-text.ts';
import { statedTitle } from '../parsed-document.ts';

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

/** `name` and the names of attributes have the usual prefix of their vocabulary, whichever one the file uses. */
export type XmlElement = { name: string; attributes: Record<string, string>; children: XmlNode[] };
export type XmlNode = XmlElement | string;

/** Vocabularies by the last part of their address that no other one has; the strict and the usual kind differ before. */
const prefixes: [RegExp, string][] = [
  [/wordprocessingml\/(?:2006\/)?main$/, 'w'],
  [/presentationml\/(?:2006\/)?main$/, 'p'],
  [/drawingml\/(?:2006\/)?main$/, 'a'],
  [/drawingml\/(?:2006\/)?chart$/, 'c'],
  [/drawingml\/(?:2006\/)?diagram$/, 'dgm'],
  [/drawingml\/(?:2006\/)?wordprocessingDrawing$/, 'wp'],
  [/officeDocument\/(?:2006\/)?relationships$/, 'r'],
  [/officeDocument\/(?:2006\/)?math$/, 'm'],
  [/markup-compatibility\/2006$/, 'mc'],
  [/^urn:schemas-microsoft-com:vml$/, 'v'],
  [/^http:\/\/purl\.org\/dc\/elements\/1\.1\/$/, 'dc'],
  [/^http:\/\/www\.w3\.org\/1999\/xlink$/, 'xlink'],
  [/^http:\/\/www\.w3\.org\/1998\/Math\/MathML$/, 'math'],
  [/^http:\/\/www\.w3\.org\/2001\/04\/xmlenc#$/, 'enc'],
  [/^http:\/\/www\.idpf\.org\/2007\/opf$/, 'opf'],
  [/^http:\/\/www\.daisy\.org\/z3986\/2005\/ncx\/$/, 'ncx'],
  [/^urn:oasis:names:tc:opendocument:xmlns:drawing:/, 'draw'],
  [/^urn:oasis:names:tc:opendocument:xmlns:svg-compatible:/, 'svg'],
];

/** Deeper documents are no documents; names are looked for through all elements that are open. */
const deepestNesting = 2_000;

/** Takes the children of an element one after the other, as they are read: they are never in memory together. */
type XmlTaker = { childrenOf: string; take: (child: XmlElement) => void };

/**
 * The root of an XML document. White space between elements is left out.
 * @throws Error for what is not well-formed or nested without end
 */
export function parseXml(bytes: Buffer, taker?: XmlTaker): XmlElement {
  const parser = new SaxesParser({ xmlns: true });
  const names = createNames();
  const top: XmlElement = { name: '', attributes: {}, children: [] };
  const open = [top];
  parser.on('opentag', (tag) => {
    if (open.length > deepestNesting) throw new Error(`The XML nests more than ${deepestNesting} elements.`);
    const attributes: Record<string, string> = {};
    for (const { uri, prefix, local, value } of Object.values(tag.attributes)) {
      if (prefix !== 'xmlns' && local !== 'xmlns') attributes[names(uri, prefix, local)] = value;
    }
    const element = { name: names(tag.uri, tag.prefix, tag.local), attributes, children: [] };
    if (open.at(-1)?.name !== taker?.childrenOf) open.at(-1)?.children.push(element);
    open.push(element);
  });
  parser.on('closetag', () => {
    const closed = open.pop();
    if (closed && open.at(-1)?.name === taker?.childrenOf) taker?.take(closed);
  });
  const addText = (text: string) => {
    if (!/^\s*\n\s*$/.test(text)) open.at(-1)?.children.push(text);
  };
  parser.on('text', addText);
  parser.on('cdata', addText);
  parser.write(decodeText(bytes, htmlEncoding(bytes))).close();
  const [root] = elementsOf(top);
  if (!root) throw new Error('The XML has no root.');
  return root;
}

/** Each name is put together once: a document has few of them, a million times. */
function createNames(): (uri: string, prefix: string, local: string) => string {
  const vocabularies = new Map<string, Map<string, string>>();
  return (uri, prefix, local) => {
    const key = uri || prefix;
    const known = vocabularies.get(key) ?? new Map<string, string>();
    vocabularies.set(key, known);
    const name = known.get(local) ?? withPrefix(uri, prefix, local);
    known.set(local, name);
    return name;
  };
}

function withPrefix(uri: string, prefix: string, local: string): string {
  const usual = prefixes.find(([address]) => address.test(uri))?.[1] ?? prefix;
  return usual ? `${usual}:${local}` : local;
}

export function elementsOf(element: XmlElement | undefined): XmlElement[] {
  return element?.children.filter((child) => typeof child !== 'string') ?? [];
}

export function childrenNamed(element: XmlElement | undefined, name: string): XmlElement[] {
  return elementsOf(element).filter((child) => child.name === name);
}

/** The element at the end of a path of names, the first one of each name. */
export function childAt(element: XmlElement | undefined, ...path: string[]): XmlElement | undefined {
  let found = element;
  for (const name of path) found = elementsOf(found).find((child) => child.name === name);
  return found;
}

/** All elements of that name below, in the order of the document. */
export function descendants(element: XmlElement | undefined, name: string): XmlElement[] {
  return elementsOf(element).flatMap((child) => (child.name === name ? [child] : descendants(child, name)));
}

export function textOf(node: XmlNode | undefined): string {
  if (node === undefined) return '';
  return typeof node === 'string' ? node : node.children.map(textOf).join('');
}
