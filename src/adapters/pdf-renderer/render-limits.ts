const MiB = 1024 ** 2;

/** What making one PDF may use. */
export type RenderLimits = {
  /** Wall time. */
  wallMs: number;
  /** Resident memory of an office program with all that it starts. */
  memoryBytes: number;
  pdfBytes: number;
};

export const defaultRenderLimits: Readonly<RenderLimits> = {
  // A workbook of a hundred thousand rows takes a minute on a slow core.
  wallMs: 120_000,
  memoryBytes: 1_500 * MiB,
  pdfBytes: 256 * MiB,
};
