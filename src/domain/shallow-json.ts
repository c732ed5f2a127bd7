/** True when a JSON value nests at most `levels` deep: what is deeper overflows the stack of whoever walks it. */
export function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((item) => isShallow(item, levels - 1));
}
