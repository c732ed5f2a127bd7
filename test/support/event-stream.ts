import { EventSourceParserStream } from 'eventsource-parser/stream';

export type StreamEvent = { id: string | undefined; event: string | undefined; data: unknown };

/** The Server-Sent Events of an answer, one by one. */
export async function* readEvents(response: Response): AsyncIterableIterator<StreamEvent> {
  if (response.body === null) throw new Error('the stream has no body');
  const events = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
  for await (const { id, event, data } of events) yield { id, event, data: JSON.parse(data) };
}
