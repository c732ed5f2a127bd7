import type { SourceFormat } from '#src/domain/document-format.ts';

/**
 * `body` is Markdown; `pageMap` holds the offset in it (UTF-16 code units, ascending, the first is 0) at which each
 * page starts, or null for a format without pages.
 */
export type ConvertedDocument = {
  body: string;
  pageMap: number[] | null;
  pageCount: number | null;
  sourceFormat: SourceFormat;
  title: string | null;
};

/** Turns a file into Markdown, in a child process where the format calls for it. */
export type Converter = {
  /** Changes whenever the same file could give another body; part of the key of stored conversions. */
  readonly version: string;
  /** By content; the name only tells text-like formats apart. Throws `unsupported_format`, `encrypted_document`. */
  detect(input: { path: string; fileName: string; declaredMediaType?: string }): Promise<SourceFormat>;
  /** Throws `encrypted_document`, `corrupt_document`, `empty_document`, `too_large`, `conversion_timeout`. */
  convert(input: {
    path: string;
    fileName: string;
    format: SourceFormat;
    /** Of text, as whoever gave the file has named it: believed unless the bytes prove another one. */
    encoding?: string | undefined;
    signal: AbortSignal;
    onProgress?: (note: string) => void;
  }): Promise<ConvertedDocument>;
  /** The words of each page of a PDF, in lines as they are drawn. Throws as `convert`. */
  readPages(pdf: { path: string; signal: AbortSignal }): Promise<string[]>;
};
