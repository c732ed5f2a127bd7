import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { readJsonBody } from '#src/http/request/body.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

/** Creates a request whose body arrives in two pieces. */
function requestWith(body: string): IncomingMessage {
  const stream = new PassThrough();
  const middle = Math.floor(body.length / 2);
  stream.write(body.slice(0, middle));
  stream.end(body.slice(middle));
  return Object.assign(stream, {
    complete: true,
    headers: { 'content-type': 'application/json' },
  }) as unknown as IncomingMessage;
}

describe('a JSON body', () => {
  const read = (body: string) => readJsonBody(requestWith(body));

  it('is limited to ten thousand fields and elements', async () => {
    const numbers = (count: number) => JSON.stringify(Array.from({ length: count }, (_, index) => index));
    expect(await read(numbers(10_000))).length(10_000);
    const fields = `{${Array.from({ length: 10_001 }, (_, index) => `"${index}":1`).join()}}`;
    const empty = `[${'[],'.repeat(5_001)}1]`;
    for (const body of [numbers(10_001), fields, empty]) {
      expect(await appErrorCode(read(body))).equal('payload_too_large');
    }
  });

  it('does not count brackets and commas in strings', async () => {
    const text = '[{,"\\'.repeat(30_000);
    expect(await read(JSON.stringify({ text }))).deep.equal({ text });
  });
});
