// `npm run bench:http [-- P7 P8 metrics]` measures the overhead of a request over its query, of concurrent sign-ins,
// and of metrics.
import { cpus } from 'node:os';
import { measureLoginStorm } from './http/login-storm.ts';
import { startMeasuredApi } from './http/measured-api.ts';
import { measureMetricsCost } from './http/metrics-cost.ts';
import { measureThroughput } from './http/throughput.ts';

const measures = { P7: measureThroughput, P8: measureLoginStorm, metrics: measureMetricsCost };

const wanted = process.argv.slice(2);
const api = await startMeasuredApi();
try {
  for (const [name, measure] of Object.entries(measures)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    console.log(['', ...(await measure(api))].join('\n'));
  }
  console.log(`\nnode ${process.versions.node}, ${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores`);
} finally {
  await api.stop();
}
