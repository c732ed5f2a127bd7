/** Keys are ours: this keeps a mistake from becoming a path outside the store. */
export function requireBlobKey(key: string): string {
  if (!/^[\w-]+(\/[\w-]+)*$/.test(key)) throw new Error(`not a blob key: ${key}`);
  return key;
}
