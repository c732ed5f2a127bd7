/** Position after a page of a list: the sort key as text (keeps microseconds of times), and the id for ties. */
export type ListPosition = { sortKey: string; id: string };

/** An uploaded file in the blob store. `sha256` is lower-case hex. */
export type StoredUpload = {
  blobKey: string;
  /** Claim that protects the object from deletion until a row refers to it; see modules/originals. */
  claimId: string;
  fileName: string;
  mediaType: string;
  sizeBytes: number;
  sha256: string;
};
