import { ActivityFailure, ApplicationFailure, ApplicationFailureCategory, RetryState } from '@temporalio/common';
import { expect } from 'chai';
import { pino } from 'pino';
import { writeTemporalSdkLog } from '#workers/telemetry.ts';

describe('log of the Temporal SDK', () => {
  function linesOf(failure: unknown) {
    const lines: string[] = [];
    const logger = pino({ base: {} }, { write: (line) => lines.push(line) });
    const meta = { workflowId: 'ingest-1-1', error: failure };
    writeTemporalSdkLog(logger, { level: 'WARN', message: 'Workflow failed', timestampNanos: 0n, meta });
    return lines.map((line) => JSON.parse(line));
  }
  const failed = (category?: typeof ApplicationFailureCategory.BENIGN) => {
    const cause = ApplicationFailure.create({
      type: 'encrypted_document',
      message: 'It has a password.',
      ...(category && { category }),
    });
    return new ActivityFailure('Activity task failed', 'convert', '1', RetryState.NON_RETRYABLE_FAILURE, '1', cause);
  };

  it("logs a failure that the user's file caused as one info line without the error", () => {
    const [line, ...others] = linesOf(failed(ApplicationFailureCategory.BENIGN));
    expect(others).deep.equal([]);
    expect(line)
      .include({ level: 30, msg: 'Workflow failed', workflowId: 'ingest-1-1' })
      .include({ code: 'encrypted_document', reason: 'It has a password.' })
      .and.not.have.any.keys('err', 'error');
  });

  it('logs every other failure as a warning with its stack', () => {
    const [line] = linesOf(failed());
    expect(line).include({ level: 40, workflowId: 'ingest-1-1' });
    expect(line.err.stack).include('Activity task failed');
  });
});
