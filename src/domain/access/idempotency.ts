/**
 * Creates a resource with a reserved id. If an earlier attempt or another process has created the resource, returns it
 * instead.
 */
export async function createOrFindExisting<Made>(
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
