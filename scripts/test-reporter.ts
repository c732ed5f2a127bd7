import mocha from 'mocha';

/** Mocha's own report, and at its end the figures for the process that started it. */
class TestReporter extends mocha.reporters.Spec {
  constructor(runner: mocha.Runner, options: mocha.MochaOptions) {
    super(runner, options);
    runner.once('end', () => process.send?.({ passed: this.stats.passes, failed: this.stats.failures }));
  }
}

// Mocha takes a reporter from nowhere but the default export.
export default TestReporter;
