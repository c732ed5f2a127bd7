import { expect } from 'chai';
import { healthRoutes, readinessSchema } from '#src/http/health.routes.ts';
import { type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';

describe('readiness', () => {
  let served: ServedRoutes;
  let asked = 0;
  let isLeaving = false;
  before(async () => {
    const database = async () => {
      asked += 1;
      return true;
    };
    const broken = () => Promise.reject(new Error('not there'));
    served = await serveRoutes(healthRoutes({ checks: { database, broken }, isLeaving: () => isLeaving }));
  });
  after(() => served.close());

  const ask = async () => {
    const response = await fetch(`${served.baseUrl}/readyz`);
    expect([response.status, response.headers.get('cache-control')]).to.deep.equal([503, 'no-store']);
    return readinessSchema.parse(await response.json()).checks;
  };

  it('asks once for many who ask at once, and tells at once when the server stops', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, ask));
    expect(answers[0]).to.deep.equal({ database: true, broken: false, serving: true });
    expect(asked).to.be.below(20);
    isLeaving = true;
    expect(await ask()).deep.equal({ serving: false });
    isLeaving = false;
  });

  it('leaves out what a load balancer does not want to know', async () => {
    const response = await fetch(`${served.baseUrl}/readyz?exclude=broken`);
    expect(response.status).equal(200);
    expect(await response.json()).deep.equal({ status: 'ready', checks: { database: true, serving: true } });
    expect((await fetch(`${served.baseUrl}/readyz?exclude=nothing`)).status).equal(422);
  });
});
