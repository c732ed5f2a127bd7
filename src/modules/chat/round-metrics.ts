import type { Metrics } from '#src/ports/telemetry.ts';
import type { NumberedEvent } from './chat.model.ts';

/** Counts how rounds end and how long their askers wait for the first word; `observe` begins with the round. */
export function createRoundMetrics(metrics: Pick<Metrics, 'count' | 'time'>) {
  return (): ((event: NumberedEvent) => void) => {
    const startedMs = performance.now();
    let hasSpoken = false;
    return (event) => {
      if (event.event === 'done') metrics.count('acs_chat_rounds_total', { outcome: 'ok' });
      else if (event.event === 'error') metrics.count('acs_chat_rounds_total', { outcome: event.code });
      else if (!hasSpoken) {
        hasSpoken = true;
        metrics.time('acs_chat_first_token_seconds', {}, (performance.now() - startedMs) / 1_000);
      }
    };
  };
}
