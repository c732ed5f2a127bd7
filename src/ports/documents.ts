import type { Readable } from 'node:stream';
import type { ChunkingInput, IndexedChunk } from '#src/domain/documents/chunk-document.ts';
import type { OfficeFormat, SourceFormat } from '#src/domain/documents/formats.ts';

/**
 * `body` is Markdown. `pageMap` holds for each page the offset in `body` at which it starts (UTF-16 code units,
 * ascending, the first is 0); null for a format without pages.
 */
export type ConvertedDocument = {
  body: string;
  pageMap: number[] | null;
  pageCount: number | null;
  sourceFormat: SourceFormat;
  title: string | null;
  /** Number of scanned pages that OCR has not read yet; until it is 0, `body` and `pageMap` are incomplete. */
  pagesLeft: number;
};

/**
 * A line of text read by OCR: text, left, right, baseline, font size, whether it is bold, and its widest gap between
 * words. Positions and sizes are in points; y grows upwards.
 */
export type OcrLine = [string, number, number, number, number, boolean, number];

export type OcrPage = { pageIndex: number; lines: OcrLine[] };

/**
 * Options of OCR, which takes seconds per page and therefore runs in slices of `sliceMs`. `known` holds the pages of
 * earlier slices; `keep` stores each new page.
 */
export type OcrOptions = {
  known: readonly OcrPage[];
  sliceMs: number;
  keep: (page: OcrPage, progress: { done: number; total: number }) => Promise<void>;
};

/** A file in an archive. `refusal` says why it must not be imported; `open` works until the next entry is requested. */
export type ArchiveEntry = {
  path: string;
  sizeBytes: number;
  refusal: string | null;
  open(): Promise<Readable>;
};

/** Converts files to Markdown, in a sandboxed child process except for small text, Markdown and code files. */
export type DocumentConverter = {
  /**
   * Version of the converter, which changes whenever a file could give another Markdown text. A stored conversion is
   * reused only for the same version.
   */
  readonly version: string;
  /** Detects the format of a file by its content; the file name only distinguishes text formats. */
  detect(input: { path: string; fileName: string; declaredMediaType?: string }): Promise<SourceFormat>;
  /** Lists the files of an archive. Throws `corrupt_document`, `too_large`. */
  readArchive(path: string): AsyncIterable<ArchiveEntry>;
  /** Throws `encrypted_document`, `corrupt_document`, `empty_document`, `too_large`, `conversion_timeout`. */
  convert(input: {
    orgId: string;
    path: string;
    fileName: string;
    format: SourceFormat;
    /** Declared encoding of a text file, used unless the bytes prove another encoding. */
    encoding?: string | undefined;
    signal: AbortSignal;
    onProgress?: (note: string) => void;
    recognition?: OcrOptions | undefined;
  }): Promise<ConvertedDocument>;
  /** Reads each page's text. Throws `converter_refused` for an unreadable PDF, `too_large`, `conversion_timeout`. */
  readPages(pdf: { orgId: string; path: string; signal: AbortSignal }): Promise<string[]>;
};

/** Detects the language of a text: an ISO 639-1 code, or `und` if it cannot be determined. */
export type LanguageDetector = (text: string) => Promise<string>;

export type ChunkerOptions = { orgId: string; signal: AbortSignal };

/**
 * Chunks large documents in a worker thread. Throws `too_large` above the memory limit, `conversion_timeout`, and
 * `rate_limited` if a large document gets no thread within seconds.
 */
export type Chunker = {
  /** Sentence windows whose embedding distances semantic chunking needs; empty for other modes. */
  windows(source: Pick<ChunkingInput, 'body' | 'chunking'>, options: ChunkerOptions): Promise<string[]>;
  /** Splits a document into chunks deterministically: the same input gives the same chunks. */
  chunk(source: ChunkingInput, distances: readonly number[], options: ChunkerOptions): Promise<IndexedChunk[]>;
};

export type MalwareScanner = {
  /** Returns the name of the malware, or null. Throws `too_large` above the limit, `service_unavailable`. */
  scan(content: Readable, signal: AbortSignal): Promise<string | null>;
};

export type PdfRenderer = {
  /**
   * Identifies the program and options of the renderer. A stored preview is reused only if this version is the same.
   */
  readonly version: string;
  /**
   * Renders an office file to `pdfPath`, which must not exist. Throws `corrupt_document`, `too_large`,
   * `conversion_timeout`, `service_unavailable`, and `converter_refused` if the rendering service rejects the request.
   */
  render(input: { path: string; format: OfficeFormat; pdfPath: string; signal: AbortSignal }): Promise<void>;
};

/**
 * Makes an avatar from an untrusted image: the centre of its first frame, upright, as a square WebP of at most 512
 * pixels per side, never enlarged, without metadata. Throws `unsupported_format` for anything but PNG, JPEG, WebP and
 * GIF, `corrupt_document`, `too_large`, `conversion_timeout`.
 */
export type AvatarMaker = (image: Buffer, signal: AbortSignal) => Promise<Buffer>;
