import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { expect } from 'chai';
import { aPublishedAgent, openChatStream } from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess, startWorkerProcess } from '#test/support/child-processes.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { serveLocally } from '#test/support/local-server.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';

type Attributes = Record<string, unknown>;
type ReceivedSpan = Record<'service' | 'traceId' | 'spanId' | 'parentSpanId' | 'name', string> & {
  attributes: Attributes;
};

const attributesOf = (sent: { key: string; value: object }[] = []): Attributes =>
  Object.fromEntries(sent.map(({ key, value }) => [key, Object.values(value)[0]]));

/** A collector of traces, which are sent by OTLP over HTTP, as JSON. */
async function startCollector() {
  const spans: ReceivedSpan[] = [];
  const texts: string[] = [];
  const server = await serveLocally(async (req, res) => {
    const body = await buffer(req);
    const text = String(req.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body);
    texts.push(text);
    for (const { resource, scopeSpans } of JSON.parse(text).resourceSpans) {
      const service = attributesOf(resource.attributes)['service.name'];
      for (const scope of scopeSpans) {
        for (const span of scope.spans) spans.push({ ...span, service, attributes: attributesOf(span.attributes) });
      }
    }
    res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  return { ...server, spans, texts };
}

describe('a trace', function () {
  this.timeout(180_000);
  let collector: Awaited<ReturnType<typeof startCollector>>;
  let stack: Stack;
  const processes: ServiceProcess[] = [];
  let ada: Member;
  let trace: ReceivedSpan[];
  let logs: string[];
  const [traceId = '', chatTraceId = '', lateTraceId = ''] = ['a', 'b', 'c'].map((first) => first.padEnd(32, '1'));
  const callerSpan = '00f067aa0ba902b7';
  const partOf = (trace: string) => ({ traceparent: `00-${trace}-${callerSpan}-01` });

  before(async () => {
    collector = await startCollector();
    stack = await startStack({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.baseUrl }, { workers: false });
    ada = await stack.signUp();
    const [api, worker] = await Promise.all([startApiProcess(stack), startWorkerProcess(stack)]);
    processes.push(api, worker);
    const handbook = { name: 'Zanzibar handbook.md', content: 'Zanzibar keeps the vault behind the third door.' };
    await upload(api.baseUrl, handbook, { ...partOf(traceId), 'x-request-id': 'the-upload' });
    await untilSpan(traceId, 'RunWorkflow ingestDocument');
    const agentId = await aPublishedAgent(ada.at(api.baseUrl));
    const question = { agent_id: agentId, message: 'Where is the vault?' };
    const events = await collect(await openChatStream(ada.at(api.baseUrl), question, { headers: partOf(chatTraceId) }));
    expect(events.at(-1)).include({ event: 'done' });
    await untilSpan(chatTraceId, 'RunWorkflow scoreAlignment');
    const late = await startApiProcess(stack, { TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_CALL_TIMEOUT_MS: '2000' });
    processes.push(late);
    await upload(late.baseUrl, { name: 'Late.md', content: 'Later.' }, partOf(lateTraceId));
    // Spans that are under way are sent with the end of their process.
    const ending = processes.splice(0);
    await Promise.all(ending.map((one) => one.stop()));
    logs = ending.map((one) => one.log());
    trace = spansOf(traceId);
  });
  after(async () => {
    await Promise.all(processes.map((one) => one.stop()));
    await stack.close();
    await collector.close();
  });

  async function upload(at: string, file: { name: string; content: string }, headers: Record<string, string>) {
    const { body } = await ada.at(at).upload('/documents', file, 201, { headers });
    await untilRun(ada, Object(body).embedding_job_id, 'succeeded');
  }
  const spansOf = (traceId: string) => collector.spans.filter((span) => span.traceId === traceId);
  const namesOf = (traceId: string) => spansOf(traceId).map(({ name }) => name);
  const untilSpan = (traceId: string, wanted: string) =>
    until(`the span ${wanted} is sent`, async () => namesOf(traceId).includes(wanted));
  const named = (begin: string): ReceivedSpan => {
    const found = trace.find(({ name }) => name === begin) ?? trace.find(({ name }) => name.startsWith(begin));
    return found ?? expect.fail(`${begin} is not among ${trace.map(({ name }) => name).join(', ')}`);
  };
  const ancestorsOf = (span: ReceivedSpan): string[] => {
    const parent = trace.find(({ spanId }) => spanId === span.parentSpanId);
    return parent === undefined ? [] : [parent.name, ...ancestorsOf(parent)];
  };

  it("of an upload begins with the client's span, and reaches the SQL statements of the last ingestion step", () => {
    const request = named('POST /documents');
    expect(request).include({ parentSpanId: callerSpan, service: 'agent-conversation-service-api' });
    expect(request.attributes).include({
      'http.route': '/documents',
      'http.response.status_code': 201,
      'acs.org_id': ada.orgId,
      'acs.request_id': 'the-upload',
    });
    const start = ['StartWorkflow ingestDocument', 'POST /documents'];
    const run = ['RunWorkflow ingestDocument', ...start];
    const step = ['RunActivity ingestAtOnce', ...run];
    const ancestors: Record<string, string[]> = {
      'insert documents': ['POST /documents'],
      'blobs stage': ['POST /documents'],
      'StartWorkflow ingestDocument': ['POST /documents'],
      'RunWorkflow ingestDocument': start,
      'RunActivity ingestAtOnce': run,
      'blobs withLocalFile': step,
      'embeddings all-minilm': step,
      'vectors upsert': step,
    };
    for (const [name, expected] of Object.entries(ancestors)) {
      expect(ancestorsOf(named(name)), name).deep.equal(expected);
    }
    const { attributes } = named('RunActivity ingestAtOnce');
    expect(attributes['acs.job_id']).equal(`ingest-${attributes['acs.document_id']}-1`);
    expect(attributes['acs.org_id']).equal(ada.orgId);
    const ofStep = trace.filter((span) => ancestorsOf(span)[0] === 'RunActivity ingestAtOnce');
    expect(ofStep.filter(({ attributes }) => attributes['db.system.name'] === 'postgresql')).not.empty;
  });

  it('is complete: every span has its parent', () => {
    const ids = new Set(trace.map(({ spanId }) => spanId));
    const orphans = trace.filter(({ parentSpanId }) => parentSpanId !== callerSpan && !ids.has(parentSpanId));
    expect(orphans.map(({ name }) => name)).deep.equal([]);
    expect(trace.filter(({ name }) => name === 'RunWorkflow ingestDocument')).length(1);
  });

  it('continues when the sweeper of a worker starts the run that the request could not start', () => {
    const starts = spansOf(lateTraceId).filter(({ name }) => name === 'StartWorkflow ingestDocument');
    expect(new Set(starts.map(({ service }) => service))).have.all.keys(
      'agent-conversation-service-api',
      'agent-conversation-service-worker',
    );
    const names = ['POST /documents', 'RunWorkflow ingestDocument', 'RunActivity ingestAtOnce'];
    expect(namesOf(lateTraceId)).include.members(names);
  });

  it('of a chat message contains the search, the model call and the run that scores the round', () => {
    expect(namesOf(chatTraceId)).include.members([
      ...['POST /chat/stream', 'vectors search', 'chat extractive-1'],
      ...['StartWorkflow scoreAlignment', 'RunWorkflow scoreAlignment'],
    ]);
  });

  it('has its id in the log lines', () => {
    const lines = logs.flatMap((log) => log.trimEnd().split('\n')).map((text) => JSON.parse(text));
    const line = lines.find(({ requestId, msg }) => requestId === 'the-upload' && msg === 'request');
    expect(line).include({ trace_id: traceId, span_id: named('POST /documents').spanId });
  });

  it('contains no texts, names or secret keys', () => {
    const sent = collector.texts.join('\n');
    for (const secret of ['Zanzibar', 'vault', ada.email, ada.password, stack.settings.URL_SIGNING_KEY ?? '']) {
      expect(sent.includes(secret), secret).equal(false);
    }
  });
});
