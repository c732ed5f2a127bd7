const MiB = 1024 ** 2;

export type ConversionProcessLimits = {
  /**
   * Wall time limit of a parser or of one OCR page; with CPU contention, up to `maxParserTimeExtensions` times as long.
   */
  wallMs: number;
  processMemoryBytes: number;
  /** JavaScript heap limit of a parser. V8 reports out of memory before `processMemoryBytes` kills the parser. */
  heapMiB: number;
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
  /** Limits of an archive of documents, whose files count against the organization's quota too. */
  archiveEntries: number;
  archiveInflatedBytes: number;
  zipInflatedBytes: number;
  /** Maximum ratio of inflated to compressed size of a zip entry, checked once `zipRatioFromBytes` are inflated. */
  zipRatio: number;
  zipRatioFromBytes: number;
};

/**
 * Maximum number of wall time periods of a parser. Another period begins if CPU contention has left the parser less CPU
 * time than half a period.
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
  archiveEntries: 10_000,
  archiveInflatedBytes: 4 * 1024 * MiB,
  zipInflatedBytes: 200 * MiB,
  zipRatio: 100,
  zipRatioFromBytes: 100 * 1024,
};
