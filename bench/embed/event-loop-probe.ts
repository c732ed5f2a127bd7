// Preloaded into the model server (`node --import`): reports the event loop delay of its HTTP thread.
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
      // Each reported delay includes the sampling interval, which is subtracted.
      const lagMs = (nanoseconds: number) => Math.max(0, nanoseconds / nanosecondsPerMs - resolutionMs);
      process.send?.({ p50Ms: lagMs(delays.percentile(50)), p99Ms: lagMs(delays.percentile(99)) });
    }
  });
  // The IPC channel must not keep the process alive.
  process.channel?.unref();
}
