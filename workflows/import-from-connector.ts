import type { ImportCounts, ImportRunInput } from '#src/contracts/connectors.ts';
import { runImport } from './importing.ts';

/** Makes documents of the files and folders that somebody has chosen at a provider. */
export function importFromConnector(input: ImportRunInput): Promise<ImportCounts> {
  return runImport(input, { mirrors: false });
}
