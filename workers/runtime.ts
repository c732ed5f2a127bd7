import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';
import { writeEngineLog } from './engine-log.ts';

/**
 * Sends what the library logs to our log, and leaves signals to us: it would not know in which order to stop.
 * @param metricsAddress where the library shows its metrics; nowhere without it
 */
export function installRuntime(logger: Logger, metricsAddress?: string): void {
  Runtime.install({
    shutdownSignals: [],
    logger: new DefaultLogger('WARN', (entry) => writeEngineLog(logger, entry)),
    ...(metricsAddress !== undefined && {
      telemetryOptions: {
        metrics: {
          prometheus: {
            bindAddress: metricsAddress,
            countersTotalSuffix: true,
            unitSuffix: true,
            useSecondsForDurations: true,
          },
        },
      },
    }),
  });
}
