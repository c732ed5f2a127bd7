import type { ImportCounts, ImportRunInput } from '#src/contracts/connectors.ts';
import { runImport } from './importing.ts';

/** Brings the documents of a connection's folder in line with what is at the provider. */
export function syncConnection(input: ImportRunInput): Promise<ImportCounts> {
  return runImport(input, { mirrors: true });
}
