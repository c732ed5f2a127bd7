import type { InjectedSinks } from '@temporalio/worker';
import type { Container } from '#src/container.ts';
import { traceSinkName } from '#src/contracts/tracing.ts';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import type { TraceSinks } from '../workflows/interceptors/trace.ts';

/** Makes spans of what workflows tell of their runs. They tell it only of runs that belong to a trace. */
export function traceSinks({ tracing }: Container['telemetry']): InjectedSinks<TraceSinks> {
  return {
    [traceSinkName]: {
      ended: {
        fn({ workflowId, runId, taskQueue }, { workflowType, ...span }) {
          tracing.record({
            ...span,
            name: `RunWorkflow ${workflowType}`,
            kind: 'consumer',
            attributes: {
              'acs.job_id': parseJobId(workflowId).workflowId,
              'temporal.workflow_id': workflowId,
              'temporal.run_id': runId,
              'messaging.destination.name': taskQueue,
            },
          });
        },
        callDuringReplay: false,
      },
    },
  };
}
