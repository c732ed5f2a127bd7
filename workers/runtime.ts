import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';
import { writeEngineLog } from './engine-log.ts';

/** Sends what the library logs to our log, and leaves signals to us: it would not know in which order to stop. */
export function installRuntime(logger: Logger): void {
  Runtime.install({ shutdownSignals: [], logger: new DefaultLogger('WARN', (entry) => writeEngineLog(logger, entry)) });
}
