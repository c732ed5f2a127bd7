import { expect } from 'chai';
import { aPublishedAgent } from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess, startWorkerProcess } from '#test/support/child-processes.ts';
import type { Member } from '#test/support/client.ts';
import { type ReceivedSpan, startOtlpReceiver } from '#test/support/otlp-receiver.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';

const secretText = 'Zanzibar keeps the vault behind the third door.';
const fileName = 'Zanzibar handbook.md';

describe('a trace', function () {
  this.timeout(180_000);
  let collector: Awaited<ReturnType<typeof startOtlpReceiver>>;
  let stack: Stack;
  const processes: ServiceProcess[] = [];
  let ada: Member;
  let baseUrl: string;
  let trace: ReceivedSpan[];
  let logs: string[];
  const traceId = 'a1b2c3d4e5f60718293a4b5c6d7e8f90';
  const chatTraceId = 'c1b2c3d4e5f60718293a4b5c6d7e8f90';
  const lateTraceId = 'b1b2c3d4e5f60718293a4b5c6d7e8f90';
  const callerSpan = '00f067aa0ba902b7';

  before(async () => {
    collector = await startOtlpReceiver();
    stack = await startStack({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint }, { workers: false });
    ada = await stack.signUp();
    const [api, worker] = await Promise.all([startApiProcess(stack), startWorkerProcess(stack)]);
    processes.push(api, worker);
    baseUrl = api.baseUrl;
    const reply = await ada.at(baseUrl).upload('/documents', { name: fileName, content: secretText }, 201, {
      headers: { traceparent: `00-${traceId}-${callerSpan}-01`, 'x-request-id': 'the-upload' },
    });
    const { embedding_job_id } = reply.body as { embedding_job_id: string };
    await untilRun(ada.at(baseUrl), embedding_job_id, 'succeeded');
    await until('the run has sent its span', async () =>
      collector.spans.some(({ name, traceId: of }) => of === traceId && name === 'RunWorkflow ingestDocument'),
    );
    const agentId = await aPublishedAgent(ada.at(baseUrl));
    const answer = await ada.at(baseUrl).raw('/chat/stream', {
      method: 'POST',
      headers: { 'content-type': 'application/json', traceparent: `00-${chatTraceId}-${callerSpan}-01` },
      body: JSON.stringify({ agent_id: agentId, message: 'Where is the vault?' }),
    });
    expect(await answer.text()).to.include('event: done');
    await until('the run that scores has sent its span', async () =>
      collector.spans.some(({ name, traceId: of }) => of === chatTraceId && name === 'RunWorkflow scoreAlignment'),
    );
    const late = await startApiProcess(stack, { TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_CALL_TIMEOUT_MS: '2000' });
    processes.push(late);
    const outside = await ada.at(late.baseUrl).upload('/documents', { name: 'Late.md', content: 'Later.' }, 201, {
      headers: { traceparent: `00-${lateTraceId}-${callerSpan}-01` },
    });
    await untilRun(ada.at(baseUrl), (outside.body as { embedding_job_id: string }).embedding_job_id, 'succeeded');
    // What was under way is sent with the end of its process.
    const ending = processes.splice(0);
    await Promise.all(ending.map((one) => one.stop()));
    logs = ending.map((one) => one.log());
    trace = collector.spans.filter((span) => span.traceId === traceId);
  });

  after(async () => {
    await Promise.all(processes.map((one) => one.stop()));
    await stack.close();
    await collector.close();
  });

  const named = (pattern: RegExp): ReceivedSpan => {
    const found = trace.find(({ name }) => pattern.test(name));
    expect(found, `${pattern} among ${trace.map(({ name }) => name).join(', ')}`).not.equal(undefined);
    return found as ReceivedSpan;
  };
  const ancestorsOf = (span: ReceivedSpan): string[] => {
    const parent = trace.find(({ spanId }) => spanId === span.parentSpanId);
    return parent === undefined ? [] : [parent.name, ...ancestorsOf(parent)];
  };

  it('of an upload begins where the client says', () => {
    const request = named(/^POST \/documents$/);
    expect(request).to.include({ parentSpanId: callerSpan, service: 'agent-conversation-service-api' });
    expect(request.attributes).to.include({
      'http.route': '/documents',
      'http.response.status_code': 201,
      'acs.org_id': ada.orgId,
      'acs.request_id': 'the-upload',
    });
  });

  it('leads by every hop to the statements of the last step', () => {
    expect(ancestorsOf(named(/^insert documents$/))).to.deep.equal(['POST /documents']);
    expect(ancestorsOf(named(/^blobs stage$/))).to.deep.equal(['POST /documents']);
    expect(ancestorsOf(named(/^StartWorkflow ingestDocument$/))).to.deep.equal(['POST /documents']);
    const start = ['StartWorkflow ingestDocument', 'POST /documents'];
    expect(ancestorsOf(named(/^RunWorkflow ingestDocument$/))).to.deep.equal(start);
    const run = ['RunWorkflow ingestDocument', ...start];
    expect(ancestorsOf(named(/^RunActivity ingestAtOnce$/))).to.deep.equal(run);
    const { attributes: ofRun } = named(/^RunActivity ingestAtOnce$/);
    expect(ofRun['acs.job_id']).equal(`ingest-${ofRun['acs.document_id']}-1`);
    expect(ofRun['acs.org_id']).equal(ada.orgId);
    const step = ['RunActivity ingestAtOnce', ...run];
    expect(ancestorsOf(named(/^blobs withLocalFile$/))).to.deep.equal(step);
    expect(ancestorsOf(named(/^embeddings all-minilm/))).to.deep.equal(step);
    expect(ancestorsOf(named(/^vectors upsert$/))).to.deep.equal(step);
    const ofStep = trace.filter((span) => ancestorsOf(span)[0] === 'RunActivity ingestAtOnce');
    expect(ofStep.filter(({ attributes }) => attributes['db.system.name'] === 'postgresql')).not.empty;
  });

  it('is one: every span has its parent', () => {
    const ids = new Set(trace.map(({ spanId }) => spanId));
    const orphans = trace.filter(({ parentSpanId = '' }) => parentSpanId !== callerSpan && !ids.has(parentSpanId));
    expect(orphans.map(({ name }) => name)).to.deep.equal([]);
    expect(trace.filter(({ name }) => name === 'RunWorkflow ingestDocument')).to.have.length(1);
  });

  it('is the same when the sweeper of a worker starts what the request could not', () => {
    const starts = collector.spans.filter(
      ({ traceId: of, name }) => of === lateTraceId && name === 'StartWorkflow ingestDocument',
    );
    const services = starts.map(({ service }) => service);
    expect(new Set(services)).to.deep.equal(
      new Set(['agent-conversation-service-api', 'agent-conversation-service-worker']),
    );
    const names = collector.spans.filter(({ traceId: of }) => of === lateTraceId).map(({ name }) => name);
    expect(names).to.include.members(['POST /documents', 'RunWorkflow ingestDocument', 'RunActivity ingestAtOnce']);
  });

  it('of a message has the search, the model and the run that scores the round', () => {
    const names = collector.spans.filter(({ traceId: of }) => of === chatTraceId).map(({ name }) => name);
    expect(names).to.include.members([
      'POST /chat/stream',
      'vectors search',
      'chat extractive-1',
      'StartWorkflow scoreAlignment',
      'RunWorkflow scoreAlignment',
    ]);
  });

  it('is named in the lines of the log', () => {
    const line = logs
      .flatMap((log) => log.trimEnd().split('\n'))
      .map((text) => JSON.parse(text))
      .find(({ requestId, msg }) => requestId === 'the-upload' && msg === 'request');
    expect(line).to.include({ trace_id: traceId, span_id: named(/^POST \/documents$/).spanId });
  });

  it('holds neither texts nor names nor keys', () => {
    const sent = collector.texts.join('\n');
    for (const secret of ['Zanzibar', 'vault', ada.email, ada.password, stack.settings.URL_SIGNING_KEY ?? '']) {
      expect(sent.includes(secret), secret).equal(false);
    }
  });
});
