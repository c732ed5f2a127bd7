import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';

/** Runs an activity once, in an environment of its own. */
export function runActivity<Input, Result>(activity: (input: Input) => Promise<Result>, input: Input): Promise<Result> {
  return activityEnvironment().run<[Input], Result, typeof activity>(activity, input);
}

/** For tests that cancel an activity, listen to its heartbeats or count its attempts. */
export function activityEnvironment(info: { attempt?: number } = {}): MockActivityEnvironment {
  return new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR') });
}
