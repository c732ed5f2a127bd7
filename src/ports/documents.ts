import type { Readable } from 'node:stream';
import type { ChunkingInput, IndexedChunk } from '#src/domain/documents/chunk-document.ts';
import type { OfficeFormat, SourceFormat } from '#src/domain/documents/formats.ts';

/**
 * `body` is Markdown. `pageMap` holds the offset in it at which each page starts (UTF-16 code units, ascending, the
 * first is 0); null for a format without pages.
 */
export type ConvertedDocument = {
  body: string;
  pageMap: number[] | null;
  pageCount: number | null;
  sourceFormat: SourceFormat;
  title: string | null;
  /** Number of scanned pages that OCR has not read yet; body and page map are only usable when it is 0. */
  pagesLeft: number;
};

/**
 * A line read by OCR: text, left, right, baseline, font size, bold, and its widest gap. Positions and sizes are in
 * points; y grows upwards.
 */
export type RecognizedLine = [string, number, number, number, number, boolean, number];

export type RecognizedPage = { pageIndex: number; lines: RecognizedLine[] };

/** OCR takes seconds per page, so it runs in slices. */
export type Recognition = {
  known: readonly RecognizedPage[];
  sliceMs: number;
  keep: (page: RecognizedPage, progress: { done: number; total: number }) => Promise<void>;
};

/** Converts files to Markdown, in a sandboxed child process except for small text, Markdown and code files. */
export type Converter = {
  /** The converter's version changes whenever the same file could give another body; it keys stored conversions. */
  readonly version: string;
  /** Formats are detected by content; the file name only distinguishes text formats. */
  detect(input: { path: string; fileName: string; declaredMediaType?: string }): Promise<SourceFormat>;
  /**
   * Converts a file to Markdown. Throws `encrypted_document`, `corrupt_document`, `empty_document`, `too_large`,
   * `conversion_timeout`.
   */
  convert(input: {
    orgId: string;
    path: string;
    fileName: string;
    format: SourceFormat;
    /** The declared encoding of a text is used unless the bytes prove another one. */
    encoding?: string | undefined;
    signal: AbortSignal;
    onProgress?: (note: string) => void;
    recognition?: Recognition | undefined;
  }): Promise<ConvertedDocument>;
  /**
   * Reads the text of each page of a rendered PDF. Throws `converter_refused` if it is not a readable PDF, `too_large`,
   * `conversion_timeout`.
   */
  readPages(pdf: { orgId: string; path: string; signal: AbortSignal }): Promise<string[]>;
};

export type ChunkerOptions = { orgId: string; signal: AbortSignal };

/**
 * Chunks large documents in a worker thread. Throws `too_large` above the memory limit, `conversion_timeout`, and
 * `rate_limited` if a large document gets no thread within seconds.
 */
export type Chunker = {
  /** Returns the texts whose embedding distances semantic chunking needs; an empty list for other chunking modes. */
  windows(source: Pick<ChunkingInput, 'body' | 'chunking'>, options: ChunkerOptions): Promise<string[]>;
  /** Chunks a document deterministically: the same input gives the same chunks. */
  chunk(source: ChunkingInput, distances: readonly number[], options: ChunkerOptions): Promise<IndexedChunk[]>;
};

export type MalwareScanner = {
  /**
   * Scans a file and returns the name of the malware, or null. Throws `too_large` above the scanner's limit,
   * `service_unavailable`.
   */
  scan(content: Readable, signal: AbortSignal): Promise<string | null>;
};

export type PdfRenderer = {
  /** The renderer's version (program and options) keys stored previews. */
  readonly version: string;
  /**
   * Writes the rendered PDF to `pdfPath`, which must not exist. Throws `corrupt_document`, `too_large`,
   * `conversion_timeout`, `service_unavailable`, and `converter_refused` if the service rejects our request.
   */
  render(input: { path: string; format: OfficeFormat; pdfPath: string; signal: AbortSignal }): Promise<void>;
};

/**
 * Makes an avatar from an untrusted image: the centre of its first frame, upright, as a square WebP of at most 512
 * pixels per side, never enlarged, without metadata. Throws `unsupported_format` for anything but PNG, JPEG, WebP and
 * GIF, `corrupt_document`, `too_large`, `conversion_timeout`.
 */
export type AvatarMaker = (image: Buffer, signal: AbortSignal) => Promise<Buffer>;
