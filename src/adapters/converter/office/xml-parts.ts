import { posix } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { SaxesParser } from 'saxes';
import yauzl from 'yauzl';
import { decodeText, findDeclaredEncoding } from '../decode-text.ts';
import { discardDefaultTitle } from '../parsed-document.ts';

/** Files inside a zipped document (parts). Each is inflated only on request, so that pictures are never inflated. */
export type ZipParts = {
  names: string[];
  /** Ignores the case of the part name; returns null when the part is missing. */
  read(name: string): Promise<Buffer | null>;
};

/** Opens an archive that `checkZipArchiveLimits` has already checked for damage and zip bombs. */
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

/**
 * Opens an Office document: an archive, or a single XML file. Word's XML of 2006 (flat OPC) holds all parts; that of 2003
 * is read as the part with the text, and a flat OpenDocument as each of its parts.
 */
export async function openOfficeParts(bytes: Buffer): Promise<ZipParts> {
  if (bytes.subarray(0, 2).toString('latin1') === 'PK') return openZipParts(bytes);
  const text = decodeText(bytes, findDeclaredEncoding(bytes));
  const parts = new Map<string, string>();
  const flatParts = /<pkg:part\s[^>]*pkg:name="\/([^"]+)"[^>]*>\s*<pkg:xmlData[^>]*>(.*?)<\/pkg:xmlData>/gs;
  for (const [, name = '', xml = ''] of text.matchAll(flatParts)) parts.set(name.toLowerCase(), xml);
  if (parts.size === 0) {
    for (const [name, xml] of partsOfSingleDocument(text)) parts.set(name, xml);
  }
  return {
    names: [...parts.keys()],
    read: async (name) => {
      const part = parts.get(name.toLowerCase());
      return part === undefined ? null : Buffer.from(withoutEncoding(part));
    },
  };
}

function partsOfSingleDocument(text: string): [name: string, xml: string][] {
  if (/<office:document[\s>]/.test(text)) return ['content.xml', 'styles.xml', 'meta.xml'].map((name) => [name, text]);
  const [, namespaces = ''] = /<w:wordDocument(\s[^>]*)>/.exec(text) ?? [];
  const [styles = '<w:styles/>'] = /<w:styles[\s>].*?<\/w:styles>/s.exec(text) ?? [];
  const relation = '<Relationship Id="styles" Type="styles" Target="styles.xml"/>';
  return [
    ['word/document.xml', text],
    ['word/styles.xml', styles.replace('<w:styles', `<w:styles${namespaces}`)],
    ['word/_rels/document.xml.rels', `<Relationships>${relation}</Relationships>`],
  ];
}

function withoutEncoding(xml: string): string {
  return xml.replace(/^(\ufeff?<\?xml[^>]*?)\sencoding=(["'])[^"']*\2/, '$1');
}

export type PartRelationship = { id: string; type: string; target: string; isExternal: boolean };

export async function readXmlPart(
  parts: ZipParts,
  name: string,
  stream?: ChildStream,
): Promise<XmlElement | undefined> {
  const bytes = await parts.read(name);
  return bytes ? parseXml(bytes, stream) : undefined;
}

/**
 * Reads the relationships of a part; '' stands for the whole package. Their targets are part names or external URLs.
 */
export async function readRelationships(parts: ZipParts, partName: string): Promise<PartRelationship[]> {
  const { dir, base } = posix.parse(partName);
  const root = await readXmlPart(parts, posix.join(dir, '_rels', `${base}.rels`));
  return childXmlElementsNamed(root, 'Relationship').map(({ attributes }) => {
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

export async function findOfficeMainPart(parts: ZipParts, usualName: string): Promise<string> {
  const named = (await readRelationships(parts, '')).find(({ type }) => type === 'officeDocument')?.target;
  return named ?? usualName;
}

export async function readOfficeTitle(parts: ZipParts): Promise<string | null> {
  const core = (await readRelationships(parts, '')).find(({ type }) => type === 'core-properties')?.target;
  const root = await readXmlPart(parts, core ?? 'docProps/core.xml');
  return discardDefaultTitle(textContentOfXml(childXmlElementAtPath(root, 'dc:title')));
}

/** An XML element whose names have the usual namespace prefix (such as `w:`), whichever prefix the file declares. */
export type XmlElement = { name: string; attributes: Record<string, string>; children: XmlNode[] };
export type XmlNode = XmlElement | string;

/**
 * Usual namespace prefixes by the end of a namespace URI: strict and transitional Office files use different URIs with
 * the same end.
 */
const prefixes: [RegExp, string][] = [
  [/wordprocessingml\/(?:2006\/)?main$/, 'w'],
  [/office\/word\/2003\/wordml$/, 'w'],
  [/presentationml\/(?:2006\/)?main$/, 'p'],
  [/spreadsheetml\/(?:2006\/)?main$/, 'x'],
  [/drawingml\/(?:2006\/)?main$/, 'a'],
  [/drawingml\/(?:2006\/)?spreadsheetDrawing$/, 'xdr'],
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

/** Maximum depth of XML elements, because saxes searches all open elements for each namespace prefix. */
const maxNesting = 2_000;

/**
 * Passes each child of the element `childrenOf` to `take` as soon as it is parsed, so that the children are never all
 * in memory.
 */
type ChildStream = { childrenOf: string; take: (child: XmlElement) => void };

/** @throws Error for XML that is malformed or nested too deeply */
export function parseXml(bytes: Buffer, stream?: ChildStream): XmlElement {
  const parser = new SaxesParser({ xmlns: true });
  const names = createNames();
  const top: XmlElement = { name: '', attributes: {}, children: [] };
  const open = [top];
  parser.on('opentag', (tag) => {
    if (open.length > maxNesting) throw new Error(`The XML nests elements more than ${maxNesting} levels deep.`);
    const attributes: Record<string, string> = {};
    for (const { uri, prefix, local, value } of Object.values(tag.attributes)) {
      if (prefix !== 'xmlns' && local !== 'xmlns') attributes[names(uri, prefix, local)] = value;
    }
    const element = { name: names(tag.uri, tag.prefix, tag.local), attributes, children: [] };
    if (open.at(-1)?.name !== stream?.childrenOf) open.at(-1)?.children.push(element);
    open.push(element);
  });
  parser.on('closetag', () => {
    const closed = open.pop();
    if (closed && open.at(-1)?.name === stream?.childrenOf) stream?.take(closed);
  });
  const addText = (text: string) => {
    if (!/^\s*\n\s*$/.test(text)) open.at(-1)?.children.push(text);
  };
  parser.on('text', addText);
  parser.on('cdata', addText);
  parser.write(decodeText(bytes, findDeclaredEncoding(bytes))).close();
  const [root] = childXmlElements(top);
  if (!root) throw new Error('The XML has no root element.');
  return root;
}

/** Caches prefixed names, because a document repeats a few names up to a million times. */
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

export function childXmlElements(element: XmlElement | undefined): XmlElement[] {
  return element?.children.filter((child) => typeof child !== 'string') ?? [];
}

export function childXmlElementsNamed(element: XmlElement | undefined, name: string): XmlElement[] {
  return childXmlElements(element).filter((child) => child.name === name);
}

export function childXmlElementAtPath(element: XmlElement | undefined, ...path: string[]): XmlElement | undefined {
  let found = element;
  for (const name of path) found = childXmlElements(found).find((child) => child.name === name);
  return found;
}

/** Returns all descendants with this name in document order, without those inside another match. */
export function descendantXmlElementsNamed(element: XmlElement | undefined, name: string): XmlElement[] {
  return childXmlElements(element).flatMap((child) =>
    child.name === name ? [child] : descendantXmlElementsNamed(child, name),
  );
}

export function textContentOfXml(node: XmlNode | undefined): string {
  if (node === undefined) return '';
  return typeof node === 'string' ? node : node.children.map(textContentOfXml).join('');
}
