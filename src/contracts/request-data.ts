/**
 * Position of the last item of a page, after which the next page begins: the sort key as text (which keeps the
 * microseconds of times), and the id for equal sort keys.
 */
export type ListPosition = { sortKey: string; id: string };

export type StoredUpload = {
  blobKey: string;
  /** Claim that protects the uploaded file from deletion until a row refers to the file; see modules/originals. */
  claimId: string;
  fileName: string;
  mediaType: string;
  sizeBytes: number;
  sha256: string;
};
