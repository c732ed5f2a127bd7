/** Position after the last item of a page: its sort key as text (microseconds), and its id for equal sort keys. */
export type ListPosition = { sortKey: string; id: string };

export type StoredUpload = {
  blobKey: string;
  /** Claim that protects the uploaded file from deletion until a row refers to it; see modules/originals. */
  claimId: string;
  fileName: string;
  mediaType: string;
  sizeBytes: number;
  sha256: string;
};
