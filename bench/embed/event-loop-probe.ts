// Loaded into the model server by the benchmark (`node --import`): tells how late its HTTP thread gets to its work.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const resolutionMs = 1;
const nanosecondsPerMs = 1e6;

if (isMainThread && process.send) {
  const delays = monitorEventLoopDelay({ resolution: resolutionMs });
  process.on('message', (message) => {
    if (message === 'begin') {
      delays.reset();
      delays.enable();
    }
    if (message === 'report') {
      delays.disable();
      // The sampling interval itself is counted in each delay.
      const lagMs = (nanoseconds: number) => Math.max(0, nanoseconds / nanosecondsPerMs - resolutionMs);
      process.send?.({ p50Ms: lagMs(delays.percentile(50)), p99Ms: lagMs(delays.percentile(99)) });
    }
  });
  // The channel alone must not keep the server alive.
  process.channel?.unref();
}
