import type { Request } from 'express';
import type { Logger } from 'pino';
import { appError } from '#src/errors.ts';
import type { IdempotencyStore, StoredEvent, StoredResponse } from '#src/ports/idempotency-store.ts';
import type { Answer, EventsAnswer } from './answers.ts';
import type { Authenticate } from './authenticate.ts';
import { entityTag, namesTag } from './conditional.ts';
import { fingerprintOf, readIdempotencyKey, withIdempotency } from './idempotency.ts';
import type { OpenStreams } from './open-streams.ts';
import { parseParams } from './params.ts';
import { problemHeaders, toAppError, toProblem } from './problem.ts';
import { type ReceivedBody, receiveBody } from './receive-body.ts';
import type { AppResponse } from './request-log.ts';
import type { RequestActor, Route, RouteContext } from './route.ts';
import { sendFile, sendJson, sendProblem } from './send-answer.ts';
import { soundInput } from './sound-input.ts';
import { eventStreamHeaders } from './sse.ts';
import { validate } from './validate.ts';

export type DispatchDeps = {
  authenticate: Authenticate;
  idempotency: IdempotencyStore;
  streams: OpenStreams;
  logger: Logger;
  /** Is this the error of a database that cannot be reached? */
  isOutage: (error: unknown) => boolean;
};

type Context = RouteContext<'public' | 'user', unknown, unknown, unknown>;
type Dispatch = (req: Request, res: AppResponse) => Promise<void>;

/** Takes a request through its route: who, what, once, and the answer. */
export function createDispatcher(deps: DispatchDeps) {
  const { authenticate, idempotency, streams, logger, isOutage } = deps;

  /** `getSibling` is the GET on the same path, whose answer `If-Match` is about. */
  function dispatch(route: Route, getSibling: Route | undefined): Dispatch {
    return async (req, res) => {
      res.locals.route = route.path;
      const { requestId } = res.locals;
      const leaving = new AbortController();
      res.once('close', () => {
        if (!res.writableFinished) leaving.abort();
      });

      const actor = await admit(route, req, requestId);
      if (actor !== undefined) res.locals.userId = actor.userId;
      const key = route.idempotent && readIdempotencyKey(req.headers['idempotency-key']);
      const request = {
        actor,
        params: parseParams(route.params, req.params),
        query: route.query === undefined ? {} : validate(route.query, soundInput(req.query)),
        requestId,
        idempotencyKey: key ?? null,
        signal: leaving.signal,
      };
      await checkPrecondition(req, getSibling, request);

      const body = await receiveBody(route, req, actor);
      const call = () => callOrDiscard(route, request, body);
      if (key && actor) {
        const name = { userId: actor.userId, route: `${route.method.toUpperCase()} ${route.path}`, key };
        const fingerprint = fingerprintOf({ params: req.params, query: req.query, body: body.identity });
        const result = await withIdempotency(
          idempotency,
          name,
          fingerprint,
          () => perform(call, res),
          (error) => logger.warn({ msg: 'idempotency key not kept', requestId, err: error }),
        ).catch(async (error: unknown) => {
          await discardRefused(error, body, requestId);
          throw error;
        });
        if ('replayed' in result) await body.discard();
        await sendStored(req, res, result);
      } else {
        await send(req, res, await call());
      }
    };
  }

  async function admit(route: Route, req: Request, requestId: string): Promise<RequestActor | undefined> {
    if (route.access === 'public') return undefined;
    const actor = await authenticate(req.headers.authorization);
    if (route.access === 'org_admin' && !actor.isOrgAdmin) throw appError('forbidden');
    return { ...actor, requestId };
  }

  async function checkPrecondition(req: Request, getSibling: Route | undefined, request: Omit<Context, 'body'>) {
    const expected = req.get('if-match');
    if (expected === undefined || getSibling === undefined) return;
    const current = await getSibling.handle({ ...request, query: {}, body: undefined });
    if (current.kind !== 'json' || !namesTag(expected, entityTag(JSON.stringify(current.data)))) {
      throw appError('precondition_failed', { detail: 'Read the resource again and repeat the change.' });
    }
  }

  async function callOrDiscard(route: Route, request: Omit<Context, 'body'>, body: ReceivedBody): Promise<Answer> {
    try {
      return await route.handle({ ...request, body: body.parse() });
    } catch (error) {
      await discardRefused(error, body, request.requestId);
      throw error;
    }
  }

  /** Only a plain refusal: after any other failure a row may already point at what was stored. */
  async function discardRefused(error: unknown, body: ReceivedBody, requestId: string): Promise<void> {
    if (toAppError(error, isOutage).status >= 500) return;
    await body.discard().catch((cause: unknown) => {
      logger.warn({ msg: 'a refused upload could not be removed', requestId, err: cause });
    });
  }

  /** Does the work of an idempotent request and says what is to be kept of it. A stream is sent on the way. */
  async function perform(call: () => Promise<Answer>, res: AppResponse): Promise<StoredResponse> {
    let answer: Answer;
    try {
      answer = await call();
    } catch (thrown) {
      const error = toAppError(thrown, isOutage);
      if (error.status >= 500) throw thrown;
      const data = toProblem(error, res.locals);
      return { status: error.status, headers: problemHeaders(error, true), body: { kind: 'problem', data } };
    }
    const { status, headers } = answer;
    switch (answer.kind) {
      case 'json':
        return { status, headers, body: { kind: 'json', data: answer.data } };
      case 'empty':
        return { status, headers, body: { kind: 'empty' } };
      case 'events':
        return { status, headers, body: { kind: 'events', events: await sendEvents(res, answer) } };
      case 'file':
        throw new Error('a download cannot be kept under an idempotency key');
    }
  }

  async function sendStored(
    req: Request,
    res: AppResponse,
    result: { replayed: StoredResponse } | { fresh: StoredResponse },
  ): Promise<void> {
    if ('replayed' in result) res.set('Idempotency-Replayed', 'true');
    const { status, headers, body } = 'replayed' in result ? result.replayed : result.fresh;
    switch (body.kind) {
      case 'json':
        return sendJson(req, res, status, body.data, headers);
      case 'problem':
        return sendProblem(res, status, body.data, headers);
      case 'empty':
        return sendEmpty(res, status, headers);
      case 'events': {
        if ('fresh' in result) return;
        const replay = async (sink: { send(event: StoredEvent): Promise<void> }) => {
          for (const event of body.events) await sink.send(event);
        };
        await sendEvents(res, { kind: 'events', status: 200, headers, run: replay });
      }
    }
  }

  async function send(req: Request, res: AppResponse, answer: Answer): Promise<void> {
    switch (answer.kind) {
      case 'json':
        return sendJson(req, res, answer.status, answer.data, answer.headers);
      case 'empty':
        return sendEmpty(res, answer.status, answer.headers);
      case 'file':
        res.set(answer.headers);
        return sendFile(req, res, answer.content);
      case 'events':
        await sendEvents(res, answer);
    }
  }

  async function sendEvents(res: AppResponse, answer: EventsAnswer): Promise<StoredEvent[]> {
    const sent: StoredEvent[] = [];
    res.status(answer.status).set({ ...eventStreamHeaders, ...answer.headers });
    const stream = streams.open(res);
    try {
      await answer.run({
        send: (event) => {
          sent.push(event);
          return stream.send(event);
        },
      });
      stream.end();
    } catch (thrown) {
      const error = toAppError(thrown, isOutage);
      logger.error({ msg: 'stream failed', requestId: res.locals.requestId, code: error.code, err: thrown });
      const last = { event: 'error', data: { detail: error.message, code: error.code } };
      sent.push(last);
      stream.end(last);
    }
    return sent;
  }

  return dispatch;
}

function sendEmpty(res: AppResponse, status: number, headers: Record<string, string>): void {
  res.status(status).set({ 'Cache-Control': 'no-store', ...headers });
  res.end();
}
