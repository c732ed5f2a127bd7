import { type WorkflowInterceptorsFactory, workflowInfo } from '@temporalio/workflow';
import { activityQueues, taskQueues, type WorkflowType } from '#src/contracts/workflow-runs.ts';

/** Sends activities of workflows on the shared queue to the queue of their kind. */
export const interceptors: WorkflowInterceptorsFactory = () => ({
  outbound: [
    {
      scheduleActivity(input, next) {
        const { taskQueue, workflowType } = workflowInfo();
        if (taskQueue !== taskQueues.workflows) return next(input);
        return next({
          ...input,
          options: { ...input.options, taskQueue: activityQueues[workflowType as WorkflowType] },
        });
      },
    },
  ],
});
