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
