import { expect } from 'chai';
import { createConcurrencyLimiter } from '#src/http/routing/request-limits.ts';

describe('the limits for concurrent uploads and event streams', () => {
  it('reject an upload with 503 if 256 are open, or if 192 are open and four of them are of its organization', () => {
    const concurrency = createConcurrencyLimiter({ requests: null, streams: null });
    const take = (userId: string, orgId: string) => concurrency.take('uploads', { userId, orgId });
    const refusal = { message: 'This server has too many uploads open.', code: 'service_unavailable' };
    const expectRefusal = (userId: string, orgId: string) => {
      expect(() => take(userId, orgId))
        .throw()
        .include(refusal);
    };
    const [first] = Array.from({ length: 192 }, (_, n) => take(`user ${n % 4}`, `organization ${n % 4}`));
    expectRefusal('user 0', 'organization 0');
    for (let n = 0; n < 4; n += 1) take('ada', 'acme');
    expectRefusal('ada', 'acme');
    // With 196 open uploads, the end of one frees no slot for an organization that already has many.
    first?.();
    expectRefusal('user 0', 'organization 0');
    const others = Array.from({ length: 61 }, (_, n) => take(`other ${n}`, `small organization ${n}`));
    expectRefusal('grace', 'another');
    others[0]?.();
    take('grace', 'another');
  });

  it('reject an upload with 429 above the limit of its user or of its organization', () => {
    const concurrency = createConcurrencyLimiter({
      requests: null,
      streams: null,
      uploads: { perUser: 2, perOrganization: 3 },
    });
    const take = (userId: string) => concurrency.take('uploads', { userId, orgId: 'acme' });
    for (const userId of ['ada', 'ada', 'grace']) take(userId);
    for (const userId of ['ada', 'lin'])
      expect(() => take(userId))
        .throw()
        .include({ code: 'rate_limited' });
  });

  it('allow 3,750 event streams of an organization and reject the next with 503, even without limits per user', () => {
    const concurrency = createConcurrencyLimiter({ requests: null, streams: null });
    const take = (orgId: string) => concurrency.take('streams', { userId: `user of ${orgId}`, orgId });
    for (let n = 0; n < 3_750; n += 1) take('acme');
    expect(() => take('acme')).throw('This server has too many event streams open.');
    take('other');
  });
});
