/**
 * Where a chunk stands in its document: `Handbook › Leave › Parental leave (page 4)`. Embedded and indexed before the
 * content, so that a passage is found by the name of what it is about; never shown as content.
 */
export function contextualText(place: {
  documentName: string;
  headingPath: readonly string[];
  pageNumber: number;
}): string {
  const path = [place.documentName, ...place.headingPath].filter((part) => part.trim() !== '').join(' › ');
  return `${path} (page ${place.pageNumber})`;
}
