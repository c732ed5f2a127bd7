/** The PDF of an original. */
export type Preview = {
  orgId: string;
  originalKey: string;
  rendererVersion: string;
  blobKey: string;
  /** Of the PDF, lower-case hex. */
  sha256: string;
  sizeBytes: number;
};

/** What a run makes a preview of: a generation whose original the document still has. */
export type PreviewTarget = {
  blobKey: string;
  sourceFormat: string | null;
  conversionId: string | null;
};

/** What a preview tells the page numbers of. */
export type PreviewedBody = { body: string; pageMap: number[] | null };
