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
  /** Pictures of pages that are still to be read: until there are none, body and page map are of no use. */
  pagesLeft: number;
};

/**
 * A line that was read on a picture: text, left, right, baseline, size, whether it is bold, and the widest empty space
 * in it. Places and sizes are in points; up is more.
 */
export type RecognizedLine = [string, number, number, number, number, boolean, number];

/** A page of which only a picture is there, counted from 0. */
export type RecognizedPage = { pageIndex: number; lines: RecognizedLine[] };

/** The reading of pictures takes seconds a page, so it is done a slice at a time. */
export type Recognition = {
  /** What earlier slices have found. */
  known: readonly RecognizedPage[];
  /** Once this is over no page is begun. */
  sliceMs: number;
  /** Keeps a page for the next slice. */
  keep: (page: RecognizedPage, progress: { done: number; total: number }) => Promise<void>;
};

/** Turns a file into Markdown, in a child process where the format calls for it. */
export type Converter = {
  /** Changes whenever the same file could give another body; part of the key of stored conversions. */
  readonly version: string;
  /** By content; the name only tells text-like formats apart. Throws `unsupported_format`, `encrypted_document`. */
  detect(input: { path: string; fileName: string; declaredMediaType?: string }): Promise<SourceFormat>;
  /** Throws `encrypted_document`, `corrupt_document`, `empty_document`, `too_large`, `conversion_timeout`. */
  convert(input: {
    /** Where many files wait to be read, turns of organizations go round. */
    orgId: string;
    path: string;
    fileName: string;
    format: SourceFormat;
    /** Of text, as whoever gave the file has named it: believed unless the bytes prove another one. */
    encoding?: string | undefined;
    signal: AbortSignal;
    onProgress?: (note: string) => void;
    /** Without it pictures of text are not read. */
    recognition?: Recognition | undefined;
  }): Promise<ConvertedDocument>;
  /**
   * The words of each page of a PDF that an office program has printed, in lines as they are drawn.
   *
   * @throws AppError converter_refused for what is no readable PDF, too_large, conversion_timeout
   */
  readPages(pdf: { orgId: string; path: string; signal: AbortSignal }): Promise<string[]>;
};
