import { StartFailure } from '../supervisor/start-failure.ts';
import { type Command, withoutArguments } from './command.ts';

/** Queries that operators need again and again. Alignments are one run for each chat, and would fill every other list. */
const views = [
  { name: 'Parked, waiting for an operator', query: 'ErrorCode IS NOT NULL AND ExecutionStatus = "Running"' },
  { name: 'Failed', query: 'ExecutionStatus = "Failed"' },
  { name: 'Running, without alignments', query: 'ExecutionStatus = "Running" AND JobKind != "alignment"' },
  { name: 'All, without alignments', query: 'JobKind != "alignment"' },
  { name: 'Ingestions', query: 'JobKind = "ingest"' },
  { name: 'Imports and syncs', query: 'JobKind IN ("import", "sync")' },
  { name: 'Workflow code fails', query: 'TemporalReportedProblems IS NOT NULL' },
] as const;

export const temporalViewsCommand: Command = {
  usage: '',
  description: 'prints links to the useful lists of runs in the Temporal UI, where each can be saved as a view',
  examples: [['', 'a name and a link for each list']],
  read: withoutArguments(async ({ config }, { print }) => {
    const { uiUrl, namespace } = config.temporal;
    if (uiUrl === null) throw new StartFailure('TEMPORAL_UI_URL is not set: there is no address to link to.');
    const base = `${uiUrl.replace(/\/$/, '')}/namespaces/${namespace}/workflows`;
    for (const { name, query } of views) print(`${name}\n  ${base}?query=${encodeURIComponent(query)}`);
    print('To keep one in the browser: open it and choose "Save as New View".');
    return true;
  }),
};
