const blobKeyPattern = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\/[\w-]+$/;

/** Blob key of an original. An organization's documents with the same content share it. `sha256`: lower-case hex. */
export function originalBlobKey(orgId: string, sha256: string): string {
  return `${orgId}/${sha256}`;
}

/**
 * Returns the organization of a blob key, or null if this service did not create the key. Keys of older releases end
 * with a UUID instead of a hash.
 */
export function organizationOfBlobKey(blobKey: string): string | null {
  return blobKeyPattern.exec(blobKey)?.[1] ?? null;
}
