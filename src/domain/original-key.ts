const pattern = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\/[\w-]+$/;

/** One content is one object of an organization, however many documents have it. `sha256` is lower-case hex. */
export function originalKey(orgId: string, sha256: string): string {
  return `${orgId}/${sha256}`;
}

/** Whose original a key names; null for what is none of ours. Keys of before ended in a uuid. */
export function organizationOf(blobKey: string): string | null {
  return pattern.exec(blobKey)?.[1] ?? null;
}
