const MiB = 1024 ** 2;

export type ConversionProcessLimits = {
  /**
   * Maximum wall time of a parser process, or of one page in OCR. Up to `maxParserTimeExtensions` times as long under CPU
   * contention.
   */
  wallMs: number;
  processMemoryBytes: number;
  /**
   * JavaScript heap limit of a parser. V8 then reports out of memory itself, before the parser is killed at
   * `processMemoryBytes`.
   */
  heapMiB: number;
  /** Maximum bytes that a parser process may write to stdout. */
  outputBytes: number;
  bodyLength: number;
  /** Maximum file size for all formats except PDF, because these files are read into memory whole. */
  sourceBytes: number;
  /** Plain text up to this size is decoded without a child process, which costs 0.1 s to start. */
  inProcessBytes: number;
  pdfPages: number;
  ocrPages: number;
  imagePixels: number;
  zipEntries: number;
  zipInflatedBytes: number;
  /** Maximum ratio of inflated to compressed size of a zip entry, checked once `zipRatioFromBytes` are inflated. */
  zipRatio: number;
  zipRatioFromBytes: number;
};

/**
 * A parser that got less than half of its wall time as CPU time suffers from CPU contention and gets another period
 * of wall time, up to this many periods.
 */
export const maxParserTimeExtensions = 5;

export const defaultConversionProcessLimits: Readonly<ConversionProcessLimits> = {
  wallMs: 60_000,
  processMemoryBytes: 700 * MiB,
  heapMiB: 400,
  outputBytes: 64 * MiB,
  // Maximum text length of a document: 20 million UTF-16 units are about 6,000 dense pages. A worker can hold a few of
  // them.
  bodyLength: 20_000_000,
  sourceBytes: 64 * MiB,
  inProcessBytes: MiB,
  pdfPages: 2_000,
  ocrPages: 200,
  imagePixels: 40_000_000,
  zipEntries: 1_000,
  zipInflatedBytes: 200 * MiB,
  zipRatio: 100,
  zipRatioFromBytes: 100 * 1024,
};
