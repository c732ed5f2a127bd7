// Runs mocha for Stryker, in Stryker's own processes: they go from one change to the next without a new process, and run
// only the tests that reach it. Stryker's own runner for mocha loads neither mocha 12 nor files a second time.
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import Mocha from 'mocha';

/** Shared with the changed code, which asks here which change is active, and counts what it reaches. */
type Instrumenter = {
  activeMutant?: string | undefined;
  currentTestId?: string | undefined;
  hitCount?: number | undefined;
  hitLimit?: number | undefined;
  mutantCoverage?: unknown;
};
type MutantRun = {
  activeMutant: { id: string; fileName: string };
  /** Full titles of the tests that reach the change; absent if it is reached while files load. */
  testFilter?: readonly string[];
  hitLimit?: number;
};
type TestResult = { id: string; name: string; status: 0 | 1; timeSpentMs: number; failureMessage?: string };
/** The tests that run for changes of each file. */
export type TestsOfFiles = Readonly<Record<string, readonly string[]>>;

/** Tests of speed alone take seconds for each change, and would notice one only by their timeout. */
const withoutTestsOfSpeed = /^(?!.*linear time)/;

class MochaRunner {
  static readonly inject = ['options'] as const;
  readonly #testsOf: TestsOfFiles;
  readonly #instrumenter: Instrumenter;
  #mocha: Mocha | undefined;
  #loads = 0;

  constructor(options: { testsOf: TestsOfFiles }) {
    this.#testsOf = options.testsOf;
    const shared: { __stryker__?: Instrumenter } = globalThis as object;
    shared.__stryker__ ??= {};
    this.#instrumenter = shared.__stryker__;
  }

  capabilities() {
    return { reloadEnvironment: true };
  }

  init() {
    const copy = pathToFileURL(`${process.cwd()}/`).href;
    registerHooks({
      resolve: (specifier, context, next) => {
        const found = next(specifier, context);
        const isOfCopy = found.url.startsWith(copy) && !found.url.includes('/node_modules/');
        return isOfCopy ? { ...found, url: `${found.url}?load=${this.#loads}` } : found;
      },
    });
  }

  async dryRun() {
    const tests = await this.#run(await this.#loadAll(), false);
    return { status: 'complete', tests, mutantCoverage: this.#instrumenter.mutantCoverage };
  }

  async mutantRun({ activeMutant, testFilter, hitLimit }: MutantRun) {
    const instrumenter = this.#instrumenter;
    instrumenter.hitLimit = hitLimit;
    instrumenter.hitCount = hitLimit === undefined ? undefined : 0;
    let mocha: Mocha;
    if (testFilter === undefined) {
      instrumenter.activeMutant = activeMutant.id;
      const file = Object.keys(this.#testsOf).find((each) => activeMutant.fileName.endsWith(each)) ?? '';
      try {
        mocha = await this.#load(this.#testsOf[file] ?? []);
      } catch (error) {
        return { status: 'killed', killedBy: [], failureMessage: `${error}`, nrOfTests: 0 };
      }
    } else {
      instrumenter.activeMutant = undefined;
      mocha = this.#mocha ?? (await this.#loadAll());
      mocha.grep(
        new RegExp(`^(?:${testFilter.map((title) => title.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('|')})$`),
      );
      instrumenter.activeMutant = activeMutant.id;
    }
    const tests = await this.#run(mocha, true);
    if (hitLimit !== undefined && (instrumenter.hitCount ?? 0) > hitLimit) return { status: 'timeout' };
    const failed = tests.find(({ status }) => status === 1);
    return failed === undefined
      ? { status: 'survived', nrOfTests: tests.length }
      : { status: 'killed', killedBy: [failed.id], failureMessage: failed.failureMessage, nrOfTests: tests.length };
  }

  async #loadAll(): Promise<Mocha> {
    this.#mocha = await this.#load(Object.values(this.#testsOf).flat());
    return this.#mocha;
  }

  async #load(files: readonly string[]): Promise<Mocha> {
    this.#loads += 1;
    const mocha = new Mocha({ timeout: 0, reporter: Mocha.reporters.Base });
    mocha.cleanReferencesAfterRun(false);
    mocha.grep(withoutTestsOfSpeed);
    for (const file of new Set(['test/support/setup.ts', ...files])) {
      mocha.suite.emit(Mocha.Suite.constants.EVENT_FILE_PRE_REQUIRE, globalThis, resolve(file), mocha);
      await import(pathToFileURL(resolve(file)).href);
    }
    const instrumenter = this.#instrumenter;
    mocha.suite.beforeEach(function () {
      instrumenter.currentTestId = this.currentTest?.fullTitle();
    });
    return mocha;
  }

  async #run(mocha: Mocha, isOverAtFirstFailure: boolean): Promise<readonly TestResult[]> {
    const results: TestResult[] = [];
    setBail(mocha.suite, isOverAtFirstFailure);
    await new Promise<void>((done) => {
      const runner = mocha.run(() => done());
      runner.on('pass', (test) => {
        results.push({ id: test.fullTitle(), name: test.fullTitle(), status: 0, timeSpentMs: test.duration ?? 0 });
      });
      runner.on('fail', (test, error: Error) => {
        const id = test.ctx?.currentTest?.fullTitle() ?? test.fullTitle();
        results.push({ id, name: id, status: 1, timeSpentMs: 0, failureMessage: error.message });
      });
    });
    return results;
  }
}

function setBail(suite: Mocha.Suite, bail: boolean): void {
  suite.bail(bail);
  for (const each of suite.suites) setBail(each, bail);
}

export const strykerPlugins = [{ kind: 'TestRunner', name: 'mocha', injectableClass: MochaRunner }];
