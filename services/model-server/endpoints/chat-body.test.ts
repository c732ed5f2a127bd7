import { expect } from 'chai';
import { chatBody, toChatRequest } from './chat-body.ts';

describe('the urgency of a chat completion request', () => {
  const urgencyOf = (more: object, isWatched = true) => {
    const body = chatBody.parse({ model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...more });
    return toChatRequest(body, { isWatched }).urgency;
  };

  it('is `chat` for a stream that a user watches, `batch` for the flex tier, otherwise `judge`', () => {
    expect(urgencyOf({ stream: true })).to.equal('chat');
    expect(urgencyOf({})).to.equal('judge');
    expect(urgencyOf({ stream: true }, false)).to.equal('judge');
    expect(urgencyOf({ stream: true, service_tier: 'flex' })).to.equal('batch');
  });
});
