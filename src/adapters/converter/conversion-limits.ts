const MiB = 1024 ** 2;

/** What one conversion may use. Sizes are in bytes unless the name says otherwise. */
export type ConversionLimits = {
  /**
   * Wall time of one parser process, and of each page that is read by OCR, where the machine gives it its turn; up to
   * `wallsAtMost` times as much where it does not.
   */
  wallMs: number;
  /** Resident memory of one parser process; it is killed above. */
  processMemoryBytes: number;
  /** JavaScript heap of a Node parser process, in MiB: it ends by itself with a readable reason before the kill. */
  heapMiB: number;
  /** What a parser process may send back. */
  outputBytes: number;
  /** UTF-16 units of the Markdown body. */
  bodyLength: number;
  /** Files that are read into memory whole: all but PDF. */
  sourceBytes: number;
  /** Plain text up to this size is read without a process: decoding it is all the work, and a process costs 0.1 s. */
  inProcessBytes: number;
  pdfPages: number;
  /** Pages of one document that are pictures. */
  ocrPages: number;
  /** Of one image. */
  imagePixels: number;
  zipEntries: number;
  zipInflatedBytes: number;
  /** Inflated to compressed size of an archive entry; looked at from `zipRatioFromBytes` inflated bytes on. */
  zipRatio: number;
  zipRatioFromBytes: number;
};

/** A process that got less than half of its wall time as CPU time had no turn on a busy machine: it gets as much again. */
export const wallsAtMost = 5;

export const defaultConversionLimits: Readonly<ConversionLimits> = {
  wallMs: 60_000,
  processMemoryBytes: 700 * MiB,
  heapMiB: 400,
  outputBytes: 64 * MiB,
  // About 6,000 dense pages; the largest body that the worker can hold a few of at once.
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
