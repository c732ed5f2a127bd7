import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';

/** Sends what the library logs to our log, and leaves signals to us: it would not know in which order to stop. */
export function installRuntime(logger: Logger): void {
  Runtime.install({
    shutdownSignals: [],
    logger: new DefaultLogger('WARN', ({ level, message, meta }) => {
      const line = { ...meta, err: meta?.error };
      if (level === 'ERROR') logger.error(line, message);
      else logger.warn(line, message);
    }),
  });
}
