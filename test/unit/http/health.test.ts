import { mock } from 'node:test';
import { expect } from 'chai';
import { healthRoutes, readinessSchema } from '#src/http/server/service.routes.ts';
import { type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';
import { until } from '#test/support/until.ts';

describe('readiness', () => {
  let served: ServedRoutes;
  let asked = 0;
  /** The database check waits for this promise. */
  let released = Promise.resolve();
  let requests = 0;
  let isShuttingDown = false;
  before(async () => {
    const database = async () => {
      asked += 1;
      await released;
      return true;
    };
    const broken = () => Promise.reject(new Error('not there'));
    const countedIsShuttingDown = () => {
      requests += 1;
      return isShuttingDown;
    };
    served = await serveRoutes(healthRoutes({ checks: { database, broken }, isShuttingDown: countedIsShuttingDown }));
  });
  after(() => served.close());
  afterEach(() => mock.timers.reset());

  const ask = async () => {
    const response = await fetch(`${served.baseUrl}/readyz`);
    expect([response.status, response.headers.get('cache-control')]).to.deep.equal([503, 'no-store']);
    return readinessSchema.parse(await response.json()).checks;
  };

  it('runs each check once for concurrent requests, and fails immediately during a shutdown', async () => {
    // The clock is stopped, and with it the three-second timeout of checks.
    mock.timers.enable({ apis: ['Date', 'setTimeout'] });
    const { promise, resolve } = Promise.withResolvers<void>();
    released = promise;
    const asking = Promise.all(Array.from({ length: 20 }, ask));
    await until('all 20 requests have come', async () => requests === 20);
    resolve();
    for (const answer of await asking) expect(answer).deep.equal({ database: true, broken: false, serving: true });
    expect(asked).equal(1);
    isShuttingDown = true;
    expect(await ask()).deep.equal({ serving: false });
    isShuttingDown = false;
  });

  it('skips the check that `exclude` names', async () => {
    const response = await fetch(`${served.baseUrl}/readyz?exclude=broken`);
    expect(response.status).equal(200);
    expect(await response.json()).deep.equal({ status: 'ready', checks: { database: true, serving: true } });
    expect((await fetch(`${served.baseUrl}/readyz?exclude=nothing`)).status).equal(422);
  });
});
