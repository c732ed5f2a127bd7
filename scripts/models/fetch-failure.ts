/** A file could not be fetched from one source; the next source is tried. */
export class SourceFailure extends Error {}

/** The disk is full, so no other source would help. The partial download is kept. */
export class DiskFull extends Error {
  constructor(folder: string, needed: { bytes: number; free?: number }) {
    const free = needed.free === undefined ? '' : `, and ${megabytes(needed.free)} are free`;
    super(`The disk is full: ${megabytes(needed.bytes)} more are needed in ${folder}${free}.`);
  }
}

export function isDiskFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT');
}

export function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6).toLocaleString('en')} MB`;
}
