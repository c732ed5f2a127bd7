const MiB = 1024 ** 2;

export type ConversionLimits = {
  /** Wall time of a parser process, or of one page in OCR; up to `maxWallTimeExtensions` times as much on a busy machine. */
  wallMs: number;
  processMemoryBytes: number;
  /** JavaScript heap of a parser: V8 then ends with a readable error, before the process is killed for its memory. */
  heapMiB: number;
  /** Bytes that a parser process may write to stdout. */
  outputBytes: number;
  bodyLength: number;
  /** Size of files that are read into memory whole, which are all formats except PDF. */
  sourceBytes: number;
  /** Plain text up to this size is decoded without a child process, which costs 0.1 s to start. */
  inProcessBytes: number;
  pdfPages: number;
  ocrPages: number;
  imagePixels: number;
  zipEntries: number;
  zipInflatedBytes: number;
  /** Ratio of inflated to compressed size of a zip entry, checked once `zipRatioFromBytes` are inflated. */
  zipRatio: number;
  zipRatioFromBytes: number;
};

/** With less than half of its wall time as CPU time, a parser waited for a busy machine and gets another period. */
export const maxWallTimeExtensions = 5;

export const defaultConversionLimits: Readonly<ConversionLimits> = {
  wallMs: 60_000,
  processMemoryBytes: 700 * MiB,
  heapMiB: 400,
  outputBytes: 64 * MiB,
  // 20 million UTF-16 units are about 6,000 dense pages; a worker can hold a few such bodies at once.
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
