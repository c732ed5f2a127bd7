import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { z } from 'zod';
import { keepAliveTimeout } from './local-server.ts';

const attribute = z.object({
  key: z.string(),
  value: z.record(z.string(), z.unknown()).transform((value) => Object.values(value)[0]),
});
const attributes = z
  .array(attribute)
  .default([])
  .transform((all) => Object.fromEntries(all.map(({ key, value }) => [key, value])));
const span = z.object({
  traceId: z.string().length(32),
  spanId: z.string().length(16),
  parentSpanId: z.string().optional(),
  name: z.string(),
  attributes,
});
const traces = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes }),
      scopeSpans: z.array(z.object({ spans: z.array(span) })),
    }),
  ),
});

export type ReceivedSpan = z.infer<typeof span> & { service: string };

/** A collector of traces: it takes what comes by OTLP over HTTP, as JSON, and keeps it. */
export async function startOtlpReceiver() {
  const spans: ReceivedSpan[] = [];
  const texts: string[] = [];
  const server = createServer({ keepAliveTimeout }, async (req, res) => {
    const body = await buffer(req);
    const text = (req.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body).toString('utf8');
    texts.push(text);
    for (const { resource, scopeSpans } of traces.parse(JSON.parse(text)).resourceSpans) {
      const service = String(resource.attributes['service.name']);
      for (const one of scopeSpans.flatMap((scope) => scope.spans)) spans.push({ ...one, service });
    }
    res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** The spans of all traces, in the order in which they arrived. */
    spans,
    /** All that was sent, to look for what must not be in it. */
    texts,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
