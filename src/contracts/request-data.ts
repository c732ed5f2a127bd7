/**
 * Position of the last item of a page, after which the next page begins: the sort key as text (which keeps the
 * microseconds of times), and the id for equal sort keys.
 */
export type ListPosition = { sortKey: string; id: string };

/** `sha256` is in lower-case hexadecimal. */
export type StoredUpload = {
  blobKey: string;
  /**
   * Id of the claim that protects the file in the blob store from deletion until a database row refers to it; see
   * modules/originals.
   */
  claimId: string;
  fileName: string;
  mediaType: string;
  sizeBytes: number;
  sha256: string;
};
