import { proxyActivities } from '@temporalio/workflow';
import type { ConnectorActivities } from '#activities/connectors.ts';
import type { ImportFileInput, ImportFileResult } from '#src/contracts/connectors.ts';
import { endOfRun } from './failure.ts';
import { transfer } from './policies.ts';
import { showProgress } from './visibility.ts';

const { fetchFile } = proxyActivities<ConnectorActivities>(transfer);

/** Imports one file of an import or sync, and starts its ingestion without waiting for it. */
export async function importFile(input: ImportFileInput): Promise<ImportFileResult> {
  showProgress('Downloading the file from the provider.');
  try {
    const result = await fetchFile(input);
    showProgress(result.code === null ? `Done: ${result.status}.` : `Failed: **${result.code}**.`);
    return result;
  } catch (error) {
    // The parent workflow records the failure.
    throw await endOfRun(error, { cancelled: () => Promise.resolve(), failed: () => Promise.resolve() });
  }
}
