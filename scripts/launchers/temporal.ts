import { connect } from 'node:http2';
import { join } from 'node:path';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { serviceEnvironment } from './service-environment.ts';

const SERVICE = 'temporal.api.workflowservice.v1.WorkflowService';
const SERVING = 1;

// With its defaults, the Temporal dev server waits about 50 ms between tasks and flushes its database file at every
// write. With these values a power failure may lose the last writes: Postgres is the source of truth for jobs, which
// are reconciled.
const TUNING = [
  ...['--dynamic-config-value', 'history.transferProcessorMaxPollRPS=2000'],
  ...['--dynamic-config-value', 'history.timerProcessorMaxPollRPS=2000'],
  ...['--sqlite-pragma', 'journal_mode=wal', '--sqlite-pragma', 'synchronous=normal'],
];

// Tasks are dispatched by priority and, at equal priority, fairly between organizations.
const FAIRNESS = [
  ...['--dynamic-config-value', 'matching.useNewMatcher=true'],
  ...['--dynamic-config-value', 'matching.enableFairness=true'],
  // Temporal's fairness works within one partition of a task queue only; idle partitions still cost pollers and memory.
  ...['--dynamic-config-value', 'matching.numTaskqueueWritePartitions=1'],
  ...['--dynamic-config-value', 'matching.numTaskqueueReadPartitions=1'],
];

/** Turns off Temporal's internal worker of each namespace, which costs 1.3 MB and some CPU. It runs the schedules. */
const WITHOUT_SCHEDULES = ['--dynamic-config-value', 'worker.perNamespaceWorkerCount=0'];

export type TemporalOptions = {
  toolsDir: string;
  dataDir: string;
  port: number;
  uiPort: number;
  codecPort?: number | null;
  /** Whether schedules run. If false, they can be created but never fire. */
  hasSchedules?: boolean;
};

export function temporalServer(options: TemporalOptions): ChildSpec {
  const { toolsDir, dataDir, port, uiPort, codecPort = null, hasSchedules = true } = options;
  return {
    name: 'temporal',
    command: [
      temporalProgram(toolsDir),
      ...['server', 'start-dev', '--disable-config-file', '--disable-config-env', '--log-level', 'warn'],
      ...['--ip', '127.0.0.1', '--port', String(port), '--ui-port', String(uiPort)],
      ...(codecPort === null ? [] : ['--ui-codec-endpoint', `http://127.0.0.1:${codecPort}`]),
      ...['--namespace', 'default', '--db-filename', join(dataDir, 'temporal.db'), ...TUNING, ...FAIRNESS],
      ...(hasSchedules ? [] : WITHOUT_SCHEDULES),
    ],
    env: serviceEnvironment(),
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 10_000,
    readyTimeoutMs: 60_000,
    isReady: () => isServing(port),
  };
}

/** The path of Temporal's program, which is both server and CLI. */
export function temporalProgram(toolsDir: string): string {
  return join(toolsDir, 'bin', 'temporal');
}

/**
 * Calls the standard gRPC health service over HTTP/2: a gRPC client library would take longer to load than Temporal
 * takes to start.
 */
function isServing(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const session = connect(`http://127.0.0.1:${port}`);
    session
      .on('error', reject)
      .setTimeout(1_000, () => session.destroy(new Error('Temporal did not answer the health check within a second')));
    const answer: Buffer[] = [];
    const request = session.request({
      ':method': 'POST',
      ':path': '/grpc.health.v1.Health/Check',
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    request.on('error', reject);
    request.on('data', (part: Buffer) => answer.push(part));
    request.on('end', () => {
      session.close();
      // The answer has a gRPC header of 5 bytes, then field 1 of HealthCheckResponse (`status`) as a varint.
      resolve(
        Buffer.concat(answer)
          .subarray(5)
          .equals(Buffer.from([0x08, SERVING])),
      );
    });
    request.end(frame(Buffer.concat([Buffer.from([0x0a, SERVICE.length]), Buffer.from(SERVICE)])));
  });
}

/** Frames a gRPC message: a flag for "not compressed", the length as 32 bits, the bytes. */
function frame(message: Buffer): Buffer {
  const header = Buffer.alloc(5);
  header.writeUInt32BE(message.length, 1);
  return Buffer.concat([header, message]);
}
