import type { Orchestrator } from '#src/ports/orchestrator.ts';
import type { Tracing } from '#src/ports/telemetry.ts';
import { observedCall } from './observed-call.ts';

/** The start of a run is where its trace leaves the process: what the run does is a part of this span. */
export function observedOrchestrator(orchestrator: Orchestrator, tracing: Tracing): Orchestrator {
  return {
    ...orchestrator,
    start(job) {
      const { workflowId, start, attributes } = job;
      const facts = {
        name: `StartWorkflow ${start.workflow}`,
        kind: 'producer' as const,
        attributes: {
          'acs.job_id': workflowId,
          'acs.org_id': attributes.orgId,
          'acs.document_id': attributes.documentId,
          'acs.request_id': job.requestId,
        },
      };
      return observedCall(
        { tracing },
        facts,
        () => undefined,
        () => orchestrator.start(job),
      );
    },
  };
}
