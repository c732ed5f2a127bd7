import type { Metrics } from './metrics.ts';
import type { Tracing } from './tracing.ts';

export type Telemetry = { metrics: Metrics; tracing: Tracing };
