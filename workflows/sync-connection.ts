import type { ImportCounts, ImportRunInput } from '#src/contracts/connectors.ts';
import { runImport } from './importing.ts';

/** Synchronizes documents with a folder of a connection. */
export function syncConnection(input: ImportRunInput): Promise<ImportCounts> {
  return runImport(input, { mirrors: true });
}
