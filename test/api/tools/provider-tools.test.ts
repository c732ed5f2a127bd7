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

describe('tools of providers:', () => {
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

  type Options = Parameters<typeof callProviderTool>[4];
  const call = (id: string, args: Parameters<ToolExecutor>[0] = {}, options: Options = {}) =>
    callProviderTool(api.container, ada, id, args, options);
  /** The error of a call, which never quotes the provider. */
  const errorOf = async (calling: Promise<string>) => {
    const error = await calling.catch((thrown: unknown) => thrown);
    expect(String(Object(error).stack)).not.contain('s3cret');
    return error;
  };

  describe('web.search', () => {
    const results = Array.from({ length: 12 }, (_, index) => ({
      title: `Loans &amp; rates ${index + 1}`,
      url: `https://site-${index + 1}.example/loans`,
      description: 'A <strong>loan</strong> is\nrepaid &quot;month by month&quot;.',
      age: index === 0 ? 'May 3, 2026' : '',
    }));
    const search = (args: object = {}) => call('web.search', { query: 'loan', ...args });

    it('returns titles, URLs and extracts as plain text, numbered across pages', async () => {
      api.brave.find(results);
      expect((await search({ count: 2 })).split('\n\n')).deep.equal([
        '1. Loans & rates 1\nhttps://site-1.example/loans\n> A loan is repaid "month by month".\n(May 3, 2026)',
        '2. Loans & rates 2\nhttps://site-2.example/loans\n> A loan is repaid "month by month".',
      ]);
      expect(await search({ count: 5, page: 3 })).match(/^11\. .+\n\n12\. /s);
      expect(await search({ count: 5, page: 4 })).equal('Nothing was found.');
    });

    it('puts an extract that is a URL into quotes', async () => {
      const steering = 'https://evil.example/?steer=1';
      api.brave.find([{ title: 'It', url: 'https://good.example/', description: steering, age: steering }]);
      const lines = (await search()).split('\n');
      expect(lines.filter((line) => /^https?:/.test(line))).deep.equal(['https://good.example/']);
    });

    it('maps rejections, rate limits and invalid responses of the provider to error codes', async () => {
      expect(await appErrorCode(search({ query: 'x'.repeat(401) }))).equal('provider_rejected');
      // The words of a rejected key, in the answer to a query that has them.
      const odd = { status: 422, json: { error: { code: 'VALIDATION', detail: '"SUBSCRIPTION_TOKEN_INVALID"' } } };
      const retry = { text: 's3cret', headers: { 'retry-after': '7', location: 'http://x/' } };
      for (const [reply, expected] of [
        [odd, { code: 'provider_rejected' }],
        [
          { status: 429, ...retry },
          { code: 'provider_unavailable', retryAfterSeconds: 7 },
        ],
        [{ status: 500, ...retry }, { code: 'provider_unavailable' }],
        [{ status: 403, ...retry }, { code: 'not_granted' }],
        [{ status: 400, ...retry }, { code: 'provider_rejected' }],
      ] as const) {
        api.brave.failNext(1, reply);
        expect(await errorOf(search()), String(reply.status)).include(expected);
      }
      for (const json of [{}, { web: null }, { web: { results: {} } }, { web: { results: [] } }, []]) {
        api.brave.failNext(1, { status: 200, json });
        expect(await search(), JSON.stringify(json)).equal('Nothing was found.');
      }
      const results = [{ title: 7, description: '<b'.repeat(2_000), url: null }, null];
      api.brave.failNext(1, { status: 200, json: { web: { results } } });
      expect((await search()).length).below(2_000);
    });

    it('is aborted with the chat round that called it', async () => {
      const round = new AbortController();
      const held = api.brave.holdNext();
      const searched = errorOf(call('web.search', { query: 'x' }, { signal: round.signal }));
      await held.arrived;
      round.abort(new Error('the round is over'));
      expect(await searched).include({ message: 'the round is over' });
      held.release();
    });
  });

  describe('calendar tools', () => {
    const span = { from: '2026-03-01T00:00:00Z', to: '2026-04-01T00:00:00+02:00' };
    const times = { start: '2026-03-02T09:00:00+01:00', end: '2026-03-02T10:00:00+01:00' };
    const meeting = { title: 'Board meeting', ...times, location: 'Room 4', description: 'Bring\nthe figures.' };
    const create = (event: object, options?: Options) => call('calendar.create_event', { ...event }, options);
    const list = (args: object = span) => call('calendar.list_events', { ...args });

    it('create an event once for repeated calls, and list as many events as requested', async () => {
      expect(await create(meeting)).match(
        /^The event is in the calendar\.\n2026-03-02T09:00:00\+01:00 to 2026-03-02T10:00:00\+01:00: Board meeting \(Room 4\) \[[0-9a-f]{40}\]\n {2}Bring the figures\.$/,
      );
      await create({ title: 'Fair', start: '2026-03-05', end: '2026-03-07' });
      const timeZone = 'Europe/Berlin';
      const lunch = { title: 'Lunch', start: '2026-03-09T12:00:00', end: '2026-03-09T13:00:00', time_zone: timeZone };
      await create(lunch);
      expect(api.google.events.at(-1)).deep.include({ start: { dateTime: '2026-03-09T12:00:00', timeZone } });
      expect((await list()).split('\n')).length(4);
      expect(await list({ ...span, query: 'fair' })).match(/^2026-03-05 to 2026-03-07: Fair \[[0-9a-f]{40}\]$/);
      const callKey = 'ab'.repeat(20);
      const once = { ...meeting, title: 'Once' };
      expect(await create(once, { callKey })).equal(await create(once, { callKey }));
      expect(api.google.events.filter(({ summary }) => summary === 'Once')).length(1);
      for (const title of ['One', 'Two', 'Three', 'Four', 'Five']) {
        await create({ title: `Talk ${title}`, start: '2026-03-11', end: '2026-03-12' });
      }
      expect((await list({ ...span, query: 'talk' })).split('\n')).length(5);
      expect((await list({ ...span, query: 'talk', limit: 4 })).split('\n')).length(4);
    });

    it('send no invitations', async () => {
      await create({ ...meeting, attendees: ['eve@evil.example'] });
      const sent = api.google.calls.at(-1);
      expect(sent?.url.searchParams.get('sendUpdates')).equal('none');
      expect(sent?.body).not.contain('evil');
    });

    it('reject invalid times, and calendar ids that would change the path of the request', async () => {
      const end = '2026-03-09T13:00:00Z';
      for (const args of [
        { from: 'tomorrow' },
        { to: '2026-13-01T00:00:00Z' },
        { calendar_id: '.' },
        { calendar_id: '..' },
      ]) {
        expect(await appErrorCode(list(args))).equal('tool_arguments_invalid');
      }
      for (const start of ['soon', '2026-03-09T12:00:00']) {
        expect(await appErrorCode(create({ title: 'x', start, end }))).equal('tool_arguments_invalid');
      }
      expect(await appErrorCode(list({ calendar_id: '../../../../token' }))).equal('provider_rejected');
      expect(api.google.calls.at(-1)?.url.pathname).contain('..%2F..%2F');
    });

    it('distinguish missing permissions from limits, outages and rejections', async () => {
      for (const [status, reason, code] of [
        [403, 'insufficientPermissions', 'not_granted'],
        [403, 'userRateLimitExceeded', 'provider_unavailable'],
        [403, 'rateLimitExceeded', 'provider_unavailable'],
        [429, 'rateLimitExceeded', 'provider_unavailable'],
        [503, 'backendError', 'provider_unavailable'],
        [400, 'badRequest', 'provider_rejected'],
      ] as const) {
        api.google.failNext(1, { status, json: { error: { errors: [{ reason }], message: 's3cret' } } });
        expect(await errorOf(list()), `${status} ${reason}`).include({ code });
      }
    });
  });
});
