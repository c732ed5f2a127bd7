import type { OfficeFormat } from '#src/domain/office-format.ts';

/** Prints office files: an office program on this machine, or a service that has one. */
export type PdfRenderer = {
  /** What it is and how it is asked: part of what a stored preview is known by. */
  readonly version: string;
  /**
   * Writes the PDF of the file at `path` to `pdfPath`, where nothing is yet.
   *
   * @throws AppError corrupt_document for a file that it does not open, too_large, conversion_timeout;
   * service_unavailable while a service is away, converter_refused for one that refuses us
   * @throws the signal's reason after an abort
   */
  render(input: { path: string; format: OfficeFormat; pdfPath: string; signal: AbortSignal }): Promise<void>;
};
