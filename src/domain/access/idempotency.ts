/** JSON with sorted keys, so that equal values give equal text. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    item !== null && typeof item === 'object' && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
}

/**
 * Creates a resource whose id a repeated request uses again. If creation fails because an earlier attempt or another process
 * already created it, returns that resource.
 */
export async function makeOnce<Made>(
  make: () => Promise<Made>,
  findMade: () => Promise<Made | undefined>,
): Promise<Made> {
  try {
    return await make();
  } catch (error) {
    const made = await findMade();
    if (made === undefined) throw error;
    return made;
  }
}

/** Versions from `If-Match`; null accepts any version. */
export type ExpectedVersions = readonly number[] | null;
