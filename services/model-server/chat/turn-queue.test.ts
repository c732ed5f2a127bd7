import { expect } from 'chai';
import { OpenAiError } from '../openai-error.ts';
import type { Urgency } from './chat-request.ts';
import { createTurnQueue } from './turn-queue.ts';

describe('the request queue of the model server', () => {
  const never = new AbortController().signal;

  function occupied() {
    const queue = createTurnQueue();
    const gate = Promise.withResolvers<void>();
    const order: string[] = [];
    const first = queue.run('batch', never, () => gate.promise);
    const wait = (name: string, urgency: Urgency, signal = never) =>
      queue.run(urgency, signal, async () => {
        order.push(name);
      });
    return { queue, order, wait, release: () => gate.resolve(), first };
  }

  it('runs chat requests first, then judge, then batch, each kind in the order of arrival', async () => {
    const { order, wait, release } = occupied();
    const all = [wait('b', 'batch'), wait('j1', 'judge'), wait('c1', 'chat'), wait('j2', 'judge'), wait('c2', 'chat')];
    release();
    await Promise.all(all);
    expect(order).to.deep.equal(['c1', 'c2', 'j1', 'j2', 'b']);
  });

  it('drops a waiting request when its client disconnects', async () => {
    const { order, wait, release } = occupied();
    const leaving = new AbortController();
    const left = wait('left', 'chat', leaving.signal).catch((error: unknown) => error);
    const stays = wait('stays', 'batch');
    leaving.abort(new Error('gone'));
    expect(await left)
      .to.be.an('error')
      .with.property('message', 'gone');
    release();
    await stays;
    expect(order).to.deep.equal(['stays']);
  });

  it('continues after a request that fails', async () => {
    const queue = createTurnQueue();
    const failed = queue.run('chat', never, () => Promise.reject(new Error('broken'))).catch(() => 'failed');
    const next = queue.run('chat', never, async () => 'next');
    expect(await Promise.all([failed, next])).to.deep.equal(['failed', 'next']);
    await queue.idle();
  });

  it('rejects a request with 429 and Retry-After when too many wait', async () => {
    const { wait, release } = occupied();
    const line = Array.from({ length: 32 }, (_, index) => wait(`${index}`, 'judge'));
    const refused = await wait('late', 'chat').catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(OpenAiError).and.include({ status: 429, retryAfterSeconds: 10 });
    release();
    await Promise.all(line);
  });
});
