/**
 * Makes something whose id a repeated request has again. When making it fails, an interrupted request or another process
 * may have made it before: then that is the result, and not the conflict with it.
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
