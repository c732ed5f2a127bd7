import { expect } from 'chai';
import { createEmbeddedService, type EmbeddedService } from '#test/support/embedded-service.ts';
import { processStart } from '../../scripts/supervisor/process-lock.mjs';

describe('npm start', () => {
  let service: EmbeddedService;

  before(async () => {
    service = await createEmbeddedService();
  });
  after(() => service.close());

  it('serves on a new data folder, and ends all its processes on SIGTERM with exit code 0', async () => {
    const { child, ended, ready } = service.start();
    await ready;
    expect((await fetch(`${service.apiUrl}/readyz`)).status).equal(200);
    const tree = service.children();
    child.kill('SIGTERM');
    const { code } = await ended;
    expect(code).equal(0);
    expect(tree.map(({ pid }) => processStart(pid)).filter((start) => start !== null)).deep.equal([]);
  });
});
