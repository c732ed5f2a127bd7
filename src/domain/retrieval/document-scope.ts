/** Folders, with all that is below them, and documents to which an agent is bound. */
export type DocumentScope = { folderIds: string[]; documentIds: string[] };

/** Returns what a changed scope has that the scope before it lacks. Only this has to be readable for the user. */
export function addedToScope(scope: DocumentScope, before: DocumentScope | null): DocumentScope {
  const added = (ids: string[], known: readonly string[] = []) => ids.filter((id) => !known.includes(id));
  return {
    folderIds: added(scope.folderIds, before?.folderIds),
    documentIds: added(scope.documentIds, before?.documentIds),
  };
}
