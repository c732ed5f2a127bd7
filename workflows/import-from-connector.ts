import type { ImportCounts, ImportRunInput } from '#src/contracts/connectors.ts';
import { runImport } from './importing.ts';

/** Imports the files and folders that a user has requested. */
export function importFromConnector(input: ImportRunInput): Promise<ImportCounts> {
  return runImport(input, { mirrors: false });
}
