/** The argument of `deleteDocument` and of each of its activities. */
export type DeleteDocumentInput = { orgId: string; documentId: string };
