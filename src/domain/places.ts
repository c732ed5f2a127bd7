/** Counts how many places each owner has taken. The limits are the caller's. */
export function createPlaces() {
  const taken = new Map<string, number>();
  const of = (owner: string) => taken.get(owner) ?? 0;
  const add = (owner: string, difference: 1 | -1) => {
    const count = of(owner) + difference;
    if (count > 0) taken.set(owner, count);
    else taken.delete(owner);
  };

  return {
    of,
    /** Takes one of each. @returns gives them back; to be called once */
    take(...owners: readonly string[]): () => void {
      for (const owner of owners) add(owner, 1);
      return () => {
        for (const owner of owners) add(owner, -1);
      };
    },
  };
}
