/** A file that was streamed to the blob store while its request was still coming in. `sha256` is lower-case hex. */
export type StoredUpload = {
  blobKey: string;
  /** Keeps what is stored until a row refers to it: see modules/originals. */
  claimId: string;
  fileName: string;
  mediaType: string;
  sizeBytes: number;
  sha256: string;
};
