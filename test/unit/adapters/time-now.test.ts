import { expect } from 'chai';
import { createTimeTool } from '#src/adapters/tools/built-in-executors.ts';
import { toolContext as context, refusal } from '#test/support/tool-context.ts';

describe('time.now', () => {
  const now = createTimeTool(() => new Date('2026-11-22T14:04:05Z'));

  it('returns day, time and time zone', async () => {
    expect(await now({}, context)).equal('Sunday, 2026-11-22 14:04:05 GMT+00:00 (UTC)');
    expect(await now({ time_zone: 'Asia/Kolkata' }, context)).equal(
      'Sunday, 2026-11-22 19:34:05 GMT+05:30 (Asia/Kolkata)',
    );
  });

  it('rejects an unknown time zone', async () => {
    expect(await refusal(now, { time_zone: 'Mars/Olympus' })).match(/must be an IANA time zone/);
  });
});
