/**
 * Creates a resource with an id that repeated requests use again. If creation fails because an earlier attempt or
 * another process already created the resource, returns that one.
 */
export async function createIdempotently<Made>(
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
