/** An uploaded file in the blob store. `sha256` is lower-case hex. */
export type StoredUpload = {
  blobKey: string;
  /** Claim that protects the object until a row refers to it; see modules/originals. */
  claimId: string;
  fileName: string;
  mediaType: string;
  sizeBytes: number;
  sha256: string;
};
