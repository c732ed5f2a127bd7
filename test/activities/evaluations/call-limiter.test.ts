import { expect } from 'chai';
import { createPgModelCallLimiter } from '#src/adapters/postgres/limits.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ModelCallLimiter } from '#src/ports/models.ts';
import { addOrganization } from '#test/support/indexed-documents.ts';
import { useTestDatabase } from '#test/support/services.ts';
import { until } from '#test/support/until.ts';

const never = new AbortController().signal;

describe('the limiter of model calls', () => {
  const own = useTestDatabase();
  let model: string;
  let orgId: string;
  /** Two instances act like two processes. */
  let limiters: [ModelCallLimiter, ModelCallLimiter];
  beforeEach(async () => {
    orgId = await anotherOrganization();
    model = `model-${orgId}`;
    limiters = [createPgModelCallLimiter(own.db), createPgModelCallLimiter(own.db)];
  });
  const anotherOrganization = async () => (await addOrganization(own.db)).orgId;
  const rowsOf = (table: string) => own.db(table).where({ model });

  /** Calls that run until `release`; counts how many run at the same time. */
  function gauge() {
    const released = Promise.withResolvers<void>();
    const state = { running: 0, most: 0, done: 0 };
    const call = async () => {
      state.running += 1;
      state.most = Math.max(state.most, state.running);
      await released.promise;
      state.running -= 1;
      state.done += 1;
    };
    return { state, call, release: released.resolve };
  }

  /** Collects the organizations that ask the database for a call of the model from now on. */
  function askingForCalls(): Set<string> {
    const asking = new Set<string>();
    own.db.on('query', ({ sql, bindings = [] }: { sql: string; bindings?: unknown[] }) => {
      const [ofOrg, ofModel] = bindings;
      if (sql.includes('left join model_calls') && ofModel === model) asking.add(String(ofOrg));
    });
    return asking;
  }

  it('limits an organization to eight concurrent calls of a model over all processes, and delays no other calls', async () => {
    const { state, call, release } = gauge();
    const calls = limiters.flatMap((limiter) =>
      Array.from({ length: 12 }, () => limiter.run({ orgId, model }, call, never)),
    );
    await until('eight are under way', async () => state.running === 8);
    const leaving = new AbortController();
    calls.push(limiters[0].run({ orgId, model }, call, leaving.signal));
    leaving.abort(new Error('stopped'));
    expect(await calls.pop()?.catch((error: unknown) => error)).property('message', 'stopped');
    const noCall = async () => undefined;
    await limiters[0].run({ orgId: await anotherOrganization(), model }, noCall, never);
    await limiters[0].run({ orgId, model: `${model}-2` }, noCall, never);
    expect(state.running).equal(8);
    release();
    await Promise.all(calls);
    expect(state).include({ most: 8, done: 24 });
    expect(await rowsOf('modelCalls')).deep.equal([]);
  });

  it('makes one call at a time, over all organizations, to a model that is configured so', async () => {
    const { state, call, release } = gauge();
    const orgIds = [orgId, await anotherOrganization(), await anotherOrganization()];
    const asking = askingForCalls();
    const calls = orgIds.map((id) => limiters[0].run({ orgId: id, model, atOnce: 1 }, call, never));
    await until('each has asked for its call', async () => orgIds.every((id) => asking.has(id)));
    await until('one is under way', async () => state.running === 1);
    release();
    await Promise.all(calls);
    expect(state).include({ most: 1, done: 3 });
  });

  it('frees the slots of a dead process when they expire', async () => {
    const expiresAt = own.db.raw(`now() + interval '1 hour'`);
    const held = Array.from({ length: 8 }, () => ({ id: crypto.randomUUID(), orgId, model, expiresAt }));
    await own.db('modelCalls').insert(held);
    const { state, call, release } = gauge();
    release();
    const asking = askingForCalls();
    const running = limiters[0].run({ orgId, model }, call, never);
    await until('it has asked for its call', async () => asking.has(orgId));
    expect(state.done).equal(0);
    await rowsOf('modelCalls').update({ expiresAt: new Date(0) });
    await running;
    expect(state.done).equal(1);
  });

  it('makes no call before the Retry-After time, and then a single probing call before all others', async () => {
    const calledAtMs: number[] = [];
    let refusedAtMs = 0;
    const call = async () => {
      calledAtMs.push(Date.now());
      if (refusedAtMs > 0) return;
      refusedAtMs = Date.now();
      throw appError('model_unavailable', { retryAfterSeconds: 1 });
    };
    await limiters[0].run({ orgId, model }, call, never);
    await limiters[1].run({ orgId: await anotherOrganization(), model }, call, never);
    expect(Math.min(...calledAtMs.slice(1)) - refusedAtMs).at.least(990);
    expect((await rowsOf('modelPauses'))[0]).include({ width: 3 });
  });

  it('throws an error with the remaining seconds when a model pauses long, and caps the pause at ten minutes', async () => {
    const busy = async () => {
      throw appError('model_unavailable', { retryAfterSeconds: 10 ** 9 });
    };
    const refusedAtMs = performance.now();
    const leastSeconds = () => 599 - (performance.now() - refusedAtMs) / 1_000;
    const refusedBy = (limiter: ModelCallLimiter) => limiter.run({ orgId, model }, busy, never).catch((error) => error);
    const [refusal, told] = [await refusedBy(limiters[0]), await refusedBy(limiters[1])];
    expect(refusal).instanceOf(AppError);
    expect(told instanceof AppError && told.retryAfterSeconds).within(leastSeconds(), 600);
    const seconds = own.db.raw('extract(epoch from not_before - now())::float8 as seconds');
    expect((await rowsOf('modelPauses').first(seconds)).seconds).within(leastSeconds(), 600);
  });
});
