/**
 * Where a chunk stands in its document: `Handbook › Leave › Parental leave (page 4)`, and behind that what a model says
 * of it, if one was asked. Embedded and indexed before the content, so that a passage is found by the name of what it
 * is about; never shown as content.
 */
export function contextualText(place: {
  documentName: string;
  headingPath: readonly string[];
  pageNumber: number;
  situation?: string | undefined;
}): string {
  const path = [place.documentName, ...place.headingPath].filter((part) => part.trim() !== '').join(' › ');
  const where = `${path} (page ${place.pageNumber})`;
  return place.situation ? `${where}\n${place.situation}` : where;
}
