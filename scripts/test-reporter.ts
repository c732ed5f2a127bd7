import mocha from 'mocha';

/** Mocha's own report, and at its end what passed and failed for the process that started it. */
class TestReporter extends mocha.reporters.Spec {
  constructor(runner: mocha.Runner, options: mocha.MochaOptions) {
    super(runner, options);
    runner.once('end', () => process.send?.({ passed: this.stats.passes, failed: this.failures.map(nameOf) }));
  }
}

function nameOf(test: mocha.Test): string {
  const [reason = ''] = (test.err?.message ?? '').split('\n');
  return `${test.fullTitle()}: ${reason}`;
}

// Mocha takes a reporter from nowhere but the default export.
export default TestReporter;
