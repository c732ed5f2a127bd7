import { ActivityFailure, ApplicationFailure, ApplicationFailureCategory, RetryState } from '@temporalio/common';
import { expect } from 'chai';
import { pino } from 'pino';
import { chooseMetricsExposure } from '#src/container/telemetry.ts';
import { writeTemporalSdkLog } from '#workers/telemetry.ts';

describe('the log of the Temporal SDK', () => {
  function linesOf(failure: unknown) {
    const lines: string[] = [];
    const logger = pino({ base: {} }, { write: (line) => lines.push(line) });
    const meta = { workflowId: 'ingest-1-1', error: failure };
    writeTemporalSdkLog(logger, { level: 'WARN', message: 'Workflow failed', timestampNanos: 0n, meta });
    return lines.map((line) => JSON.parse(line));
  }
  const failed = (options: { category?: 'BENIGN' } = {}) => {
    const cause = ApplicationFailure.create({ type: 'encrypted_document', message: 'It has a password.', ...options });
    return new ActivityFailure('Activity task failed', 'convert', '1', RetryState.NON_RETRYABLE_FAILURE, '1', cause);
  };

  it("reports a failure that the user's file caused as one info line without the error", () => {
    const [line, ...others] = linesOf(failed({ category: ApplicationFailureCategory.BENIGN }));
    expect(others).deep.equal([]);
    expect(line)
      .include({ level: 30, msg: 'Workflow failed', workflowId: 'ingest-1-1' })
      .include({ code: 'encrypted_document', reason: 'It has a password.' })
      .and.not.have.any.keys('err', 'error');
  });

  it('reports another error of the catalogue as a warning without a stack, and any other failure with its stack', () => {
    const [expected] = linesOf(failed());
    expect(expected).include({ level: 40, code: 'encrypted_document', reason: 'It has a password.' });
    expect(expected).not.have.any.keys('err', 'error');
    const [line] = linesOf(new Error('a bug'));
    expect(line).include({ level: 40, workflowId: 'ingest-1-1' });
    expect(line.err.stack).include('a bug');
  });
});

describe('the metrics endpoint', () => {
  it('is on its own port if that is set, else on the API port, or nowhere if other machines can reach the API', () => {
    type Server = Parameters<typeof chooseMetricsExposure>[0]['server'];
    const exposureOf = (host: string, metricsPort: number | null = null, proxy: Partial<Server> = {}) =>
      chooseMetricsExposure({ metricsPort, server: { host, publicUrl: null, trustProxy: false, ...proxy } as Server });
    for (const host of ['127.0.0.1', '127.8.8.8', '::1', '::ffff:127.0.0.1', 'localhost']) {
      expect(exposureOf(host), host).equal('main_port');
    }
    for (const host of ['0.0.0.0', '::', '10.1.2.3', '203.0.113.7', 'api.example.com', 'localhost.example.com']) {
      expect(exposureOf(host), host).equal('nowhere');
    }
    expect(exposureOf('127.0.0.1', null, { publicUrl: 'https://api.example.com' })).equal('nowhere');
    expect(exposureOf('127.0.0.1', null, { trustProxy: 1 })).equal('nowhere');
    for (const host of ['127.0.0.1', '0.0.0.0']) expect(exposureOf(host, 9464)).equal('own_port');
  });
});
