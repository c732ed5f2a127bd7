/**
 * Creates a resource whose id is the same in repeated requests. If creation fails because an earlier attempt or another
 * process already created the resource, returns the existing one.
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
