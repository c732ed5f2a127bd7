import { v5 as uuidv5 } from 'uuid';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';

/** Follows from the place and never from the text, so that a repeated step meets its own rows and points. */
export function chunkId(of: IngestDocumentInput, index: number): string {
  return uuidv5(`${of.generation}:${index}`, of.documentId);
}
