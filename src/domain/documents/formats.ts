/** Formats that the converter supports. Other files fail with `unsupported_format`. */
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
] as const;
export type SourceFormat = (typeof sourceFormats)[number];

/** Supported formats as text for error messages. */
export const readableFormats =
  'text, Markdown, source code, web pages, CSV, JSON, PDF, Word (.docx, .doc), PowerPoint (.pptx, .ppt), ' +
  'Excel (.xlsx, .xls), OpenDocument (.odt, .odp, .ods), .rtf, e-books (.epub), mail (.eml, .msg) and images';

/** Language of the code fence by file extension. */
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

/** @returns the part after the last dot, in lower case; empty if there is none */
export function fileExtension(fileName: string): string {
  return /\.([^./\\]+)$/.exec(fileName)?.[1]?.toLowerCase() ?? '';
}

/** @returns the language of a code fence; empty if the extension is unknown */
export function codeLanguage(fileName: string): string {
  return ownValue(codeLanguages, fileExtension(fileName)) ?? '';
}

/** A workbook stored as one XML file (Excel 2003). */
const excelXml = /^(?:<\?xml[^>]*>\s*)?<\?mso-application progid="Excel\.Sheet"\?>/;

/**
 * Detects the format of a text file. The content decides; the name, then the declared media type, only distinguish formats
 * that look alike.
 * @param head the first characters of the file, decoded
 * @returns null for PostScript, which is text but not readable
 */
export function textFormat(input: { head: string; fileName: string; declaredMediaType?: string }): SourceFormat | null {
  const head = input.head.trimStart();
  const extension = fileExtension(input.fileName);
  if (head.startsWith('%!PS')) return null;
  if (head.startsWith('{\\rtf')) return 'rtf';
  if ((extension === 'eml' && startsWithHeader(head)) || looksLikeMail(head)) return 'eml';
  if (looksLikeHtmlPage(head) || looksLikeFeed(head)) return 'html';
  if (excelXml.test(head)) return 'xls';
  if (Object.hasOwn(codeLanguages, extension)) return 'code';
  const mediaType = input.declaredMediaType?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const named = ownValue(formatsByExtension, extension) ?? ownValue(formatsByMediaType, mediaType) ?? 'text';
  return named === 'html' && !/<[a-z][^<>]*>/i.test(head) ? 'text' : named;
}

/** Guards against inherited keys: `x.constructor` is not a format. */
function ownValue<Value>(table: Record<string, Value>, key: string): Value | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

function looksLikeHtmlPage(head: string): boolean {
  return /^<(?:!doctype\s+html|html|head|body)[\s>]/i.test(afterProlog(head));
}

const feedStart =
  /^<(?:rss\s|(?:\w+:)?feed\s[^>]*["']http:\/\/www\.w3\.org\/2005\/Atom["']|rdf:RDF\s[^>]*["']http:\/\/purl\.org\/rss\/1\.0\/["'])/;

/** RSS or Atom. */
export function looksLikeFeed(text: string): boolean {
  return feedStart.test(afterProlog(text.trimStart()));
}

/** Skips comments and processing instructions before the first element. */
function afterProlog(head: string): string {
  let rest = head;
  for (;;) {
    const end = rest.startsWith('<!--') ? '-->' : rest.startsWith('<?') ? '>' : undefined;
    if (end === undefined || !rest.includes(end)) return rest;
    rest = rest.slice(rest.indexOf(end) + end.length).trimStart();
  }
}

/** Mail programs may write a `From ` line before the headers. */
function startsWithHeader(head: string): boolean {
  return /^(?:From .*\r?\n)?[!-9;-~]+:/.test(head);
}

/** Begins with header lines that include a sender and a header that only mail has. */
function looksLikeMail(head: string): boolean {
  const lines = head.split(/\r?\n\r?\n/, 1)[0] ?? '';
  const marks = [/^[A-Za-z-]+: /, /^From: /im, /^(?:MIME-Version|Message-ID|Received|Return-Path): /im];
  return marks.every((mark) => mark.test(lines));
}

/** Formats that need an office program to be rendered. */
export const officeFormats = [
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

/** @returns the media type in lower case, without parameters */
export function bareMediaType(mediaType: string): string {
  return mediaType.split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

/** @returns the `charset` parameter of a media type */
export function charsetOf(mediaType: string): string | undefined {
  return /;\s*charset\s*=\s*["']?([\w.:-]+)/i.exec(mediaType)?.[1]?.toLowerCase();
}
