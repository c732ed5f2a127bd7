import { getCurrentDetails, type WorkflowInterceptorsFactory } from '@temporalio/workflow';

/** Temporal refuses summaries of more than 400 bytes; encryption adds about 60, and a character has up to four. */
const maxSummaryCharacters = 80;

/** Gives each activity without a summary the first line of the run's details, which say what the run is doing. */
export const interceptors: WorkflowInterceptorsFactory = () => ({
  outbound: [
    {
      scheduleActivity(input, next) {
        const summary = input.options.summary ?? firstLine(getCurrentDetails());
        return next({ ...input, options: { ...input.options, ...(summary !== '' && { summary }) } });
      },
    },
  ],
});

function firstLine(details: string): string {
  const [line = ''] = details.split('\n');
  return line.length > maxSummaryCharacters ? `${line.slice(0, maxSummaryCharacters)}…` : line;
}
