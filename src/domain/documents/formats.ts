/** File formats that the converter supports. Other files fail with `unsupported_format`. */
export const sourceFormats = [
  'text',
  'markdown',
  'code',
  'html',
  'csv',
  'json',
  'pdf',
  'docx',
  'doc',
  'odt',
  'rtf',
  'pptx',
  'ppt',
  'odp',
  'xlsx',
  'xls',
  'ods',
  'epub',
  'eml',
  'msg',
  'image',
  'archive',
] as const;
export type SourceFormat = (typeof sourceFormats)[number];

export const readableFormatsDescription =
  'text, Markdown, source code, web pages, CSV, JSON, PDF, Word (.docx, .doc), PowerPoint (.pptx, .ppt), ' +
  'Excel (.xlsx, .xls), OpenDocument (.odt, .odp, .ods), .rtf, e-books (.epub), mail (.eml, .msg), images, and ' +
  'archives of such files (.zip, .tar, .tar.gz)';

const codeLanguages: Record<string, string> = {
  bash: 'bash',
  c: 'c',
  cc: 'cpp',
  clj: 'clojure',
  conf: 'ini',
  cpp: 'cpp',
  cs: 'csharp',
  css: 'css',
  dart: 'dart',
  ex: 'elixir',
  exs: 'elixir',
  go: 'go',
  gradle: 'groovy',
  graphql: 'graphql',
  groovy: 'groovy',
  h: 'c',
  hpp: 'cpp',
  hs: 'haskell',
  ini: 'ini',
  java: 'java',
  jl: 'julia',
  js: 'javascript',
  jsx: 'jsx',
  kt: 'kotlin',
  less: 'less',
  lua: 'lua',
  m: 'objectivec',
  mjs: 'javascript',
  mts: 'typescript',
  php: 'php',
  pl: 'perl',
  properties: 'ini',
  proto: 'protobuf',
  ps1: 'powershell',
  py: 'python',
  r: 'r',
  rb: 'ruby',
  rs: 'rust',
  scala: 'scala',
  scss: 'scss',
  sh: 'bash',
  sql: 'sql',
  svelte: 'svelte',
  swift: 'swift',
  tex: 'latex',
  tf: 'hcl',
  toml: 'toml',
  ts: 'typescript',
  tsx: 'tsx',
  vue: 'vue',
  xml: 'xml',
  xsd: 'xml',
  xsl: 'xml',
  yaml: 'yaml',
  yml: 'yaml',
};

const formatsByExtension: Record<string, SourceFormat> = {
  csv: 'csv',
  geojson: 'json',
  htm: 'html',
  html: 'html',
  ipynb: 'json',
  json: 'json',
  jsonl: 'json',
  markdown: 'markdown',
  md: 'markdown',
  mdx: 'markdown',
  ndjson: 'json',
  tab: 'csv',
  tsv: 'csv',
  txt: 'text',
  xhtml: 'html',
  // Programs export tab-separated text as `.xls` so that Excel opens it.
  xls: 'csv',
};

const formatsByMediaType: Record<string, SourceFormat> = {
  'application/json': 'json',
  'application/xhtml+xml': 'html',
  'application/xml': 'code',
  'text/csv': 'csv',
  'text/html': 'html',
  'text/markdown': 'markdown',
  'text/tab-separated-values': 'csv',
  'text/xml': 'code',
};

export function fileExtension(fileName: string): string {
  return /\.([^./\\]+)$/.exec(fileName)?.[1]?.toLowerCase() ?? '';
}

export function codeLanguageOfFile(fileName: string): string {
  return ownValue(codeLanguages, fileExtension(fileName)) ?? '';
}

const excelXml = /^(?:<\?xml[^>]*>\s*)?<\?mso-application progid="Excel\.Sheet"\?>/;

/**
 * Detects the format of a text file by its content. The file name, then the declared media type, only distinguish
 * formats that look alike.
 * @param head the first characters of the file, decoded
 * @returns null for PostScript, which is text but cannot be converted
 */
export function detectTextFormat(input: {
  head: string;
  fileName: string;
  declaredMediaType?: string;
}): SourceFormat | null {
  const head = input.head.trimStart();
  const extension = fileExtension(input.fileName);
  if (head.startsWith('%!PS')) return null;
  if (head.startsWith('{\\rtf')) return 'rtf';
  if ((extension === 'eml' && startsWithHeader(head)) || looksLikeMail(head)) return 'eml';
  if (looksLikeHtmlPage(head) || looksLikeFeed(head)) return 'html';
  const root = xmlDocumentRoot(head);
  if (root !== null) return formatOfXmlDocument(root, head);
  if (excelXml.test(head)) return 'xls';
  if (Object.hasOwn(codeLanguages, extension)) return 'code';
  const mediaType = input.declaredMediaType?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const named = ownValue(formatsByExtension, extension) ?? ownValue(formatsByMediaType, mediaType) ?? 'text';
  return named === 'html' && !/<[a-z][^<>]*>/i.test(head) ? 'text' : named;
}

/** Reads only own properties of a table, because inherited ones such as `constructor` are not file formats. */
function ownValue<Value>(table: Record<string, Value>, key: string): Value | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

function looksLikeHtmlPage(head: string): boolean {
  return /^<(?:!doctype\s+html|html|head|body)[\s>]/i.test(afterProlog(head));
}

const feedStart =
  /^<(?:rss\s|(?:\w+:)?feed\s[^>]*["']http:\/\/www\.w3\.org\/2005\/Atom["']|rdf:RDF\s[^>]*["']http:\/\/purl\.org\/rss\/1\.0\/["'])/;

export function looksLikeFeed(text: string): boolean {
  return feedStart.test(afterProlog(text.trimStart()));
}

/** XML documents whose text is read; all others are kept as source code. */
const xmlDocumentRoots = /^<(pkg:package|w:wordDocument|office:document|FictionBook|article)(?=[\s>])/;

/**
 * Detects Word's XML of 2003 and 2006, flat OpenDocument, FictionBook and JATS.
 * @returns the name of the root element, or null
 */
export function xmlDocumentRoot(text: string): string | null {
  const start = afterProlog(text.trimStart());
  const [, root = null] = xmlDocumentRoots.exec(start) ?? [];
  const isJournal = /\bJATS\b|NLM\/\/DTD|<front[\s>]|<article-meta[\s>]/.test(text.slice(0, headOfJournal));
  return root === 'article' && !isJournal ? null : root;
}

/** An article in JATS has its metadata within this many characters. */
const headOfJournal = 8_192;

function formatOfXmlDocument(root: string, head: string): SourceFormat {
  if (root === 'pkg:package' || root === 'w:wordDocument') return 'docx';
  if (root !== 'office:document') return 'html';
  if (/opendocument\.spreadsheet/.test(head)) return 'ods';
  return /opendocument\.presentation/.test(head) ? 'odp' : 'odt';
}

function afterProlog(head: string): string {
  let rest = head;
  for (;;) {
    const isType = /^<!doctype\s+(?!html)/i.test(rest) && !/^[^>]*\[/.test(rest);
    const end = rest.startsWith('<!--') ? '-->' : rest.startsWith('<?') || isType ? '>' : undefined;
    if (end === undefined || !rest.includes(end)) return rest;
    rest = rest.slice(rest.indexOf(end) + end.length).trimStart();
  }
}

/** Accepts a `From ` line before the headers of a mail, because mail programs may write one. */
function startsWithHeader(head: string): boolean {
  return /^(?:From .*\r?\n)?[!-9;-~]+:/.test(head);
}

/** Also accepts the first mail of a mailbox, and the length before a mail of Apple Mail. */
function looksLikeMail(head: string): boolean {
  const lines = (head.split(/\r?\n\r?\n/, 1)[0] ?? '').replace(/^(?:From .*|\d+\s*)\r?\n/, '');
  const marks = [/^[A-Za-z-]+: /, /^From: /im, /^(?:MIME-Version|Message-ID|Received|Return-Path): /im];
  return marks.every((mark) => mark.test(lines));
}

const officeFormats = [
  'docx',
  'doc',
  'odt',
  'rtf',
  'pptx',
  'ppt',
  'odp',
  'xlsx',
  'xls',
  'ods',
] as const satisfies readonly SourceFormat[];
export type OfficeFormat = (typeof officeFormats)[number];

export function isOfficeFormat(format: string | null): format is OfficeFormat {
  return officeFormats.some((name) => name === format);
}

export function mediaTypeWithoutParameters(mediaType: string): string {
  return mediaType.split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

export function charsetOfMediaType(mediaType: string): string | undefined {
  return /;\s*charset\s*=\s*["']?([\w.:-]+)/i.exec(mediaType)?.[1]?.toLowerCase();
}

const officePackage = 'application/vnd.openxmlformats-officedocument';
const openDocument = 'application/vnd.oasis.opendocument';

const mediaTypes: Record<Exclude<SourceFormat, 'image' | 'archive'>, string> = {
  text: 'text/plain',
  markdown: 'text/markdown',
  code: 'text/plain',
  html: 'text/html',
  csv: 'text/csv',
  json: 'application/json',
  pdf: 'application/pdf',
  docx: `${officePackage}.wordprocessingml.document`,
  doc: 'application/msword',
  odt: `${openDocument}.text`,
  rtf: 'application/rtf',
  pptx: `${officePackage}.presentationml.presentation`,
  ppt: 'application/vnd.ms-powerpoint',
  odp: `${openDocument}.presentation`,
  xlsx: `${officePackage}.spreadsheetml.sheet`,
  xls: 'application/vnd.ms-excel',
  ods: `${openDocument}.spreadsheet`,
  epub: 'application/epub+zip',
  eml: 'message/rfc822',
  msg: 'application/vnd.ms-outlook',
};

const binaryFormats = [
  'pdf',
  'docx',
  'doc',
  'odt',
  'rtf',
  'pptx',
  'ppt',
  'odp',
  'xlsx',
  'xls',
  'ods',
  'epub',
  'eml',
  'msg',
] as const;

const pageTypes = ['text/html', 'application/rss+xml', 'application/atom+xml'];

const imageTypes: Record<string, string> = {
  avif: 'image/avif',
  bmp: 'image/bmp',
  gif: 'image/gif',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  png: 'image/png',
  tif: 'image/tiff',
  tiff: 'image/tiff',
  webp: 'image/webp',
};

const archiveTypes: Record<string, string> = {
  gz: 'application/gzip',
  tar: 'application/x-tar',
  tgz: 'application/gzip',
  zip: 'application/zip',
};

/**
 * Guesses the format by file name and client's media type until the content is inspected. Null if both are unknown.
 */
export function guessSourceFormat(file: { fileName: string; mediaType: string | null }): SourceFormat | null {
  const extension = fileExtension(file.fileName);
  const mediaType = mediaTypeWithoutParameters(file.mediaType ?? '');
  return binaryFormat(extension, mediaType) ?? guessText(file.fileName, extension, mediaType);
}

function binaryFormat(extension: string, mediaType: string): SourceFormat | undefined {
  if (Object.hasOwn(imageTypes, extension) || Object.values(imageTypes).includes(mediaType)) return 'image';
  if (Object.hasOwn(archiveTypes, extension)) return 'archive';
  return (
    binaryFormats.find((format) => format === extension) ?? binaryFormats.find((each) => mediaTypes[each] === mediaType)
  );
}

function guessText(fileName: string, extension: string, mediaType: string): SourceFormat | null {
  if (/^x?html?$/.test(extension) || pageTypes.includes(mediaType)) return 'html';
  const format = detectTextFormat({ head: '', fileName, declaredMediaType: mediaType });
  if (format !== 'text') return format;
  return extension === 'txt' || mediaType.startsWith('text/') ? 'text' : null;
}

export function mediaTypeOfFormat(format: string | null, fileName: string): string {
  const extension = fileExtension(fileName);
  const found =
    format === 'image'
      ? ownValue(imageTypes, extension)
      : format === 'archive'
        ? ownValue(archiveTypes, extension)
        : ownValue<string>(mediaTypes, format ?? '');
  return found ?? 'application/octet-stream';
}
