/** The ids of the tools that agents of this deployment can be given. */
export const offeredTools: readonly string[] = [];

export function unknownTools(ids: readonly string[]): string[] {
  return ids.filter((id) => !offeredTools.includes(id));
}
