import { expect } from 'chai';
import { chooseMetricsExposure } from '#src/container/telemetry.ts';

describe('the place of metrics', () => {
  type Server = Parameters<typeof chooseMetricsExposure>[0]['server'];
  const placeOf = (host: string, metricsPort: number | null = null, proxy: Partial<Server> = {}) =>
    chooseMetricsExposure({ metricsPort, server: { host, publicUrl: null, trustProxy: false, ...proxy } as Server });

  for (const host of ['127.0.0.1', '127.8.8.8', '::1', '::ffff:127.0.0.1', 'localhost']) {
    it(`is beside the API at ${host}`, () => {
      expect(placeOf(host)).equal('main_port');
    });
  }

  for (const host of ['0.0.0.0', '::', '10.1.2.3', '203.0.113.7', 'api.example.com', 'localhost.example.com']) {
    it(`is nowhere at ${host}, which others reach`, () => {
      expect(placeOf(host)).equal('nowhere');
    });
  }

  it('is nowhere behind a proxy of this machine', () => {
    expect(placeOf('127.0.0.1', null, { publicUrl: 'https://api.example.com' })).equal('nowhere');
    expect(placeOf('127.0.0.1', null, { trustProxy: 1 })).equal('nowhere');
  });

  it('is a port of its own where there is one, whoever reaches the API', () => {
    expect(placeOf('127.0.0.1', 9464)).equal('own_port');
    expect(placeOf('0.0.0.0', 9464)).equal('own_port');
  });
});
