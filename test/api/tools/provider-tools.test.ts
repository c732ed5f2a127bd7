import { expect } from 'chai';
import type { ToolExecutor } from '#src/ports/tools.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import {
  callProviderTool,
  connectCalendar,
  connectSearch,
  type ToolStack,
  toolStack,
} from '#test/support/tool-stack.ts';

describe('tools of providers', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
    await connectSearch(api, ada);
    await connectCalendar(api, ada);
  });
  after(() => {
    api.google.events.length = 0;
  });

  const call = (id: string, args: Parameters<ToolExecutor>[0] = {}, signal?: AbortSignal) =>
    callProviderTool(api.container, ada, id, args, { ...(signal && { signal }) });

  describe('web.search', () => {
    const results = Array.from({ length: 12 }, (_, index) => ({
      title: `Loans &amp; rates ${index + 1}`,
      url: `https://site-${index + 1}.example/loans`,
      description: 'A <strong>loan</strong> is\nrepaid &quot;month by month&quot;.',
      age: index === 0 ? 'May 3, 2026' : '',
    }));
    const search = (args: object) => call('web.search', { query: 'loan', ...args });

    it('returns titles, URLs and extracts as plain text', async () => {
      api.brave.find(results);
      const text = await search({ count: 2 });
      expect(text.split('\n\n')).deep.equal([
        '1. Loans & rates 1\nhttps://site-1.example/loans\n> A loan is repaid "month by month".\n(May 3, 2026)',
        '2. Loans & rates 2\nhttps://site-2.example/loans\n> A loan is repaid "month by month".',
      ]);
    });

    it('puts a URL in an extract on no line of its own', async () => {
      const steering = 'https://evil.example/?steer=1';
      api.brave.find([{ title: 'It', url: 'https://good.example/', description: steering, age: steering }]);
      const lines = (await search({})).split('\n');
      expect(lines.filter((line) => /^https?:/.test(line))).deep.equal(['https://good.example/']);
      api.brave.find(results);
    });

    it('distinguishes a rejected key from a query that quotes the error', async () => {
      const error = { code: 'VALIDATION', detail: '"SUBSCRIPTION_TOKEN_INVALID"' };
      api.brave.failNext(1, { status: 422, json: { error } });
      expect(await appErrorCode(search({}))).equal('provider_rejected');
    });

    it('numbers results across pages, and reports the end', async () => {
      expect(await search({ count: 5, page: 3 })).match(/^11\. .+\n\n12\. /s);
      expect(await search({ count: 5, page: 4 })).equal('Nothing was found.');
    });

    it('reports rejections and retries a busy provider, without repeating its texts', async () => {
      expect(await appErrorCode(call('web.search', { query: 'x'.repeat(401) }))).equal('provider_rejected');
      for (const [status, code] of [
        [429, 'provider_unavailable'],
        [500, 'provider_unavailable'],
        [302, 'provider_unavailable'],
        [403, 'not_granted'],
        [400, 'provider_rejected'],
      ] as const) {
        api.brave.failNext(1, { status, text: 's3cret', headers: { 'retry-after': '7', location: 'http://x/' } });
        const error = await search({}).catch((thrown: unknown) => thrown);
        expect(error, String(status)).include({ code });
        expect(String(Object(error).stack)).not.contain('s3cret');
        if (status === 429) expect(error).include({ retryAfterSeconds: 7 });
      }
    });

    it('rejects a response of another shape', async () => {
      const odd = { title: 7, description: '<b'.repeat(2_000), url: null };
      for (const json of [{}, { web: null }, { web: { results: {} } }, { web: { results: [] } }, []]) {
        api.brave.failNext(1, { status: 200, json });
        expect(await search({}), JSON.stringify(json)).equal('Nothing was found.');
      }
      api.brave.failNext(1, { status: 200, json: { web: { results: [odd, null] } } });
      expect((await search({})).length).below(2_000);
      api.brave.failNext(1, { status: 200, text: 'x'.repeat(1_100_000) });
      expect(await appErrorCode(search({}))).equal('provider_unavailable');
    });

    it('is aborted with its round', async () => {
      const round = new AbortController();
      const held = api.brave.holdNext();
      const searched = call('web.search', { query: 'x' }, round.signal).catch((error: unknown) => error);
      await held.arrived;
      round.abort(new Error('the round is over'));
      expect(await searched).include({ message: 'the round is over' });
      held.release();
    });
  });

  describe('the calendar', () => {
    const span = { from: '2026-03-01T00:00:00Z', to: '2026-04-01T00:00:00+02:00' };
    const meeting = {
      title: 'Board meeting',
      start: '2026-03-02T09:00:00+01:00',
      end: '2026-03-02T10:00:00+01:00',
      location: 'Room 4',
      description: 'Bring\nthe figures.',
    };

    it('creates an event and lists it', async () => {
      expect(await call('calendar.create_event', meeting)).match(
        /^The event is in the calendar\.\n2026-03-02T09:00:00\+01:00 to 2026-03-02T10:00:00\+01:00: Board meeting \(Room 4\) \[[0-9a-f]{40}\]\n {2}Bring the figures\.$/,
      );
      await call('calendar.create_event', { title: 'Fair', start: '2026-03-05', end: '2026-03-07' });
      const local = { title: 'Lunch', start: '2026-03-09T12:00:00', end: '2026-03-09T13:00:00' };
      await call('calendar.create_event', { ...local, time_zone: 'Europe/Berlin' });
      expect(api.google.events.at(-1)).deep.include({
        start: { dateTime: '2026-03-09T12:00:00', timeZone: 'Europe/Berlin' },
      });
      expect((await call('calendar.list_events', span)).split('\n')).length(4);
      expect(await call('calendar.list_events', { ...span, query: 'fair' })).match(
        /^2026-03-05 to 2026-03-07: Fair \[[0-9a-f]{40}\]$/,
      );
    });

    it('creates an event once for repeated calls', async () => {
      const again = { ...meeting, title: 'Once' };
      const callKey = 'ab'.repeat(20);
      const [first, second] = [
        await callProviderTool(api.container, ada, 'calendar.create_event', again, { callKey }),
        await callProviderTool(api.container, ada, 'calendar.create_event', again, { callKey }),
      ];
      expect(second).equal(first);
      expect(api.google.events.filter(({ summary }) => summary === 'Once')).length(1);
    });

    it('reads further pages until it has enough events', async () => {
      for (const title of ['One', 'Two', 'Three', 'Four', 'Five']) {
        await call('calendar.create_event', { title: `Talk ${title}`, start: '2026-03-11', end: '2026-03-12' });
      }
      const talks = await call('calendar.list_events', { ...span, query: 'talk' });
      expect(talks.split('\n')).length(5);
      const some = await call('calendar.list_events', { ...span, query: 'talk', limit: 4 });
      expect(some.split('\n')).length(4);
    });

    it('invites no guests', async () => {
      await call('calendar.create_event', { ...meeting, attendees: ['eve@evil.example'] });
      const sent = api.google.calls.at(-1);
      expect(sent?.url.searchParams.get('sendUpdates')).equal('none');
      expect(sent?.body).not.contain('evil');
    });

    it('rejects invalid times', async () => {
      for (const wrong of [{ from: 'tomorrow' }, { to: '2026-13-01T00:00:00Z' }]) {
        expect(await appErrorCode(call('calendar.list_events', wrong))).equal('tool_arguments_invalid');
      }
      for (const start of ['soon', '2026-03-09T12:00:00']) {
        const event = { title: 'x', start, end: '2026-03-09T13:00:00Z' };
        expect(await appErrorCode(call('calendar.create_event', event))).equal('tool_arguments_invalid');
      }
    });

    it('distinguishes an unknown calendar, missing rights, limits and outages', async () => {
      const other = { calendar_id: '../../../../token' };
      expect(await appErrorCode(call('calendar.list_events', other))).equal('provider_rejected');
      expect(api.google.calls.at(-1)?.url.pathname).contain('..%2F..%2F');
      for (const calendar_id of ['.', '..']) {
        expect(await appErrorCode(call('calendar.list_events', { calendar_id }))).equal('tool_arguments_invalid');
      }
      const google = (reason: string) => ({ error: { errors: [{ reason }], message: 's3cret' } });
      for (const [status, json, code] of [
        [403, google('insufficientPermissions'), 'not_granted'],
        [403, google('userRateLimitExceeded'), 'provider_unavailable'],
        [403, google('rateLimitExceeded'), 'provider_unavailable'],
        [429, google('rateLimitExceeded'), 'provider_unavailable'],
        [503, google('backendError'), 'provider_unavailable'],
        [400, google('badRequest'), 'provider_rejected'],
      ] as const) {
        api.google.failNext(1, { status, json });
        const error = await call('calendar.list_events').catch((thrown: unknown) => thrown);
        expect(error, `${status} ${JSON.stringify(json)}`).include({ code });
        expect(String(Object(error).stack)).not.contain('s3cret');
      }
    });
  });
});
