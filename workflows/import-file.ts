import { proxyActivities } from '@temporalio/workflow';
import type { ConnectorActivities } from '#activities/connectors.ts';
import type { ImportFileInput, ImportFileResult } from '#src/contracts/connectors.ts';
import { endOfRun } from './failure.ts';
import { transfer } from './policies.ts';
import { showProgress } from './visibility.ts';

const { fetchFile } = proxyActivities<ConnectorActivities>(transfer);

/** One file of an import: fetches it, unless it is known, and begins its ingestion, which goes on by itself. */
export async function importFile(input: ImportFileInput): Promise<ImportFileResult> {
  showProgress('Fetching the file from the provider.');
  try {
    const result = await fetchFile(input);
    showProgress(result.code === null ? `Done: ${result.status}.` : `Failed: **${result.code}**.`);
    return result;
  } catch (error) {
    // The import, which it is a part of, records what it stopped for.
    throw await endOfRun(error, { cancelled: () => Promise.resolve(), failed: () => Promise.resolve() });
  }
}
