import type { Request } from 'express';
import type { Logger } from 'pino';
import { NIL, v7 as uuidv7 } from 'uuid';
import { z } from 'zod';
import { can } from '#src/domain/access/policy.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { appError, type ExpectedVersions } from '#src/errors.ts';
import type { IdempotencyKey, IdempotencyStore, StoredEvent, StoredResponse } from '#src/ports/idempotency-store.ts';
import type { FairQueue } from '#src/ports/limits.ts';
import type { Authenticate } from '../request/authentication.ts';
import { type ReceivedBody, receiveBody } from '../request/body.ts';
import { clientNetwork, preferredWaitSeconds, readIfMatch, wantsFresh } from '../request/headers.ts';
import { isUpload } from '../request/upload.ts';
import { parseParams, soundInput, validate } from '../request/validation.ts';
import { type Answer, type EventSink, type EventsAnswer, eventStream, noContent } from '../response/answers.ts';
import { eventStreamHeaders, type OpenStreams } from '../response/event-streams.ts';
import { problemHeaders, toAppError, toProblem } from '../response/problem.ts';
import { sendDownload, sendEmpty, sendFile, sendJson, sendProblem } from '../response/send-answer.ts';
import type { AppResponse } from '../server/request-log.ts';
import { fingerprintOf, readIdempotencyKey, withIdempotency } from './idempotency.ts';
import type { Concurrency, RateLimited, RateLimiting } from './limits.ts';
import { isEventStream, limitsOf, type Route } from './route.ts';

export type DispatchDeps = {
  authenticate: Authenticate;
  idempotency: IdempotencyStore;
  /** HMAC key of request fingerprints. */
  fingerprintKey: Buffer;
  streams: OpenStreams;
  logger: Logger;
  rateLimit: RateLimiting;
  concurrency: Concurrency;
  /** Reads of organizations take turns. */
  readInTurn: FairQueue;
  /** Public base URL of the API; null uses the URL of the request. */
  publicUrl: string | null;
  /** Whether an error means that the database is unreachable. */
  isOutage: (error: unknown) => boolean;
};

/** For routes without a query: unknown parameters are rejected like everywhere. */
const noQuery = z.strictObject({});

/** The caller and session; undefined for public routes. */
type Admitted =
  | { actor: RequestActor; sessionId: string; actorNow: () => Promise<Actor> }
  | { actor: undefined; sessionId: undefined; actorNow: undefined };
type Dispatch = (req: Request, res: AppResponse) => Promise<void>;

/** Processes a request: authentication, limits, validation, idempotency, handler, response. */
export function createDispatcher(deps: DispatchDeps) {
  const { authenticate, idempotency, rateLimit, concurrency, readInTurn, logger, isOutage } = deps;
  const delivery = createDelivery(deps);

  function dispatch(route: Route): Dispatch {
    const { perCaller, perEmail } = splitLimits(limitsOf(route));
    const kind = isEventStream(route) ? 'streams' : 'requests';
    const isRead = kind === 'requests' && perCaller.some(({ limit }) => limit === 'read');
    return async (req, res) => {
      let free = () => {};
      try {
        await serve(req, res, (release) => {
          free = release;
        });
      } finally {
        // Released when both the work and the connection have ended: a disconnect does not stop the work.
        if (res.closed) free();
        else res.once('close', free);
      }
    };

    async function serve(req: Request, res: AppResponse, hold: (release: () => void) => void): Promise<void> {
      res.locals.route = route.path;
      const { requestId } = res.locals;
      const disconnected = new AbortController();
      res.once('close', () => {
        if (!res.writableFinished) disconnected.abort();
      });

      const { actor, sessionId, actorNow } = await admit(route, req, requestId);
      if (actor !== undefined) {
        Object.assign(res.locals, { orgId: actor.orgId, userId: actor.userId, sessionId });
        if (res.destroyed) return;
        hold(concurrency.take(kind, actor));
      }
      const subject = { ip: req.ip, userId: actor?.userId, email: undefined };
      await rateLimit(perCaller, subject, res);
      const key = route.idempotent && readIdempotencyKey(req.headers['idempotency-key']);
      const request = {
        actor,
        sessionId,
        actorNow,
        params: parseParams(route.params, req.params),
        query: validate(route.query ?? noQuery, soundInput(req.query)),
        requestId,
        client: { network: clientNetwork(req.ip), userAgent: req.get('user-agent') ?? null },
        publicUrl: deps.publicUrl ?? `${req.protocol}://${req.host}${req.baseUrl}`,
        idempotencyKey: key ?? null,
        lastEventId: req.get('last-event-id') ?? null,
        waitSeconds: preferredWaitSeconds(req.get('prefer')),
        wantsFresh: wantsFresh(req.get('cache-control')),
        signal: disconnected.signal,
        expectedVersions: expectedVersionsOf(route, req),
      };

      // The upload slot is held only until the body has arrived, because the response may take an hour.
      const endUpload = actor && isUpload(route, req) ? concurrency.take('uploads', actor) : undefined;
      const body = await receiveBody(route, req, actor, request.params).finally(endUpload);
      let isBodyUsed = false;
      const call = async (newId = route.idempotent ? uuidv7() : NIL): Promise<Answer> => {
        const parsed = body.parse();
        await rateLimit(perEmail, { ...subject, email: emailOf(parsed) }, res);
        // Reads the rights again, because they may change while a slow body arrives. An expired token is accepted here.
        const sender =
          route.body === undefined || !actorNow ? {} : { actor: permitted(route, await actorNow(), requestId) };
        // The handler continues when the client disconnects.
        const endFetch = actor && route.fetchesFile ? concurrency.take('uploads', actor) : undefined;
        const handled = async () => route.handle({ ...request, ...sender, newId, body: parsed });
        // The client may have disconnected before its turn.
        const readInItsTurn = async () => (disconnected.signal.aborted ? noContent() : handled());
        const answer = await (isRead && actor ? readInTurn(actor.orgId, readInItsTurn) : handled()).finally(endFetch);
        isBodyUsed = true;
        return answer;
      };
      let send: () => Promise<void>;
      try {
        if (key && actor) {
          const name = { userId: actor.userId, route: `${route.method.toUpperCase()} ${route.path}`, key };
          const asked = { params: req.params, query: req.query, body: body.identity() };
          const fingerprint = fingerprintOf(deps.fingerprintKey, asked);
          // The fingerprint ignores secrets. With another secret the request may succeed, so errors are not stored.
          const keepsRefusals = !body.hasSecrets();
          send = await answerOnce(req, res, { key: name, fingerprint, keepsRefusals }, call);
        } else {
          const answer = await call();
          send = () => delivery.send(req, res, answer);
        }
      } finally {
        if (!isBodyUsed) await discard(body, requestId);
      }
      await send();
    }
  }

  async function admit(route: Route, req: Request, requestId: string): Promise<Admitted> {
    if (route.access === 'public') return { actor: undefined, sessionId: undefined, actorNow: undefined };
    const { actor, sessionId, actorNow } = await authenticate(req.headers.authorization);
    return { actor: permitted(route, actor, requestId), sessionId, actorNow };
  }

  /** Checks permissions that need no resource. */
  function permitted(route: Route, actor: Actor, requestId: string): RequestActor {
    if (route.access === 'organization:administer' && !can(actor, route.access, actor)) {
      throw appError('forbidden', { detail: 'Only an admin of the organization may do this.' });
    }
    return { ...actor, requestId };
  }

  async function discard(body: ReceivedBody, requestId: string): Promise<void> {
    await body.discard().catch((error: unknown) => {
      logger.warn({ msg: 'an unused upload could not be deleted', requestId, err: error });
    });
  }

  /** Handles a request with a key, or finds the stored response. @returns the function that sends it (streams are sent already) */
  async function answerOnce(
    req: Request,
    res: AppResponse,
    { key, fingerprint, keepsRefusals }: { key: IdempotencyKey; fingerprint: string; keepsRefusals: boolean },
    call: (newId: string) => Promise<Answer>,
  ): Promise<() => Promise<void>> {
    let endStream: (() => void) | undefined;
    const work = async (reservedId: string): Promise<StoredResponse> => {
      let answer: Answer;
      try {
        answer = await call(reservedId);
      } catch (thrown) {
        if (!keepsRefusals) throw thrown;
        return keepRefusal(thrown, res);
      }
      if (answer.kind !== 'events') return toStored(answer);
      const events: StoredEvent[] = [];
      const sent = await delivery.stream(res, answer, (event) => events.push(event));
      endStream = sent.end;
      return { status: answer.status, headers: answer.headers, body: { kind: 'events', events } };
    };
    const onLost = (error: unknown) => {
      logger.warn({ msg: 'idempotency key not kept', requestId: res.locals.requestId, err: error });
    };
    const { response, isReplay } = await withIdempotency(idempotency, key, fingerprint, work, onLost);
    if (isReplay) res.set('Idempotency-Replayed', 'true');
    return async () => {
      // Sent after the response was stored, so that an immediate repetition finds it.
      if (endStream === undefined) await delivery.sendAgain(req, res, response);
      else endStream();
    };
  }

  function keepRefusal(thrown: unknown, res: AppResponse): StoredResponse {
    const error = toAppError(thrown, isOutage);
    if (error.status >= 500) throw thrown;
    const body = { kind: 'problem' as const, data: toProblem(error, res.locals) };
    return { status: error.status, headers: problemHeaders(error, true), body };
  }

  return dispatch;
}

/** Throws `precondition_failed` for a PATCH or PUT of a resource without a version. Other methods ignore `If-Match`. */
function expectedVersionsOf({ method, takesIfMatch }: Route, req: Request): ExpectedVersions {
  const expected = method === 'patch' || method === 'put' ? readIfMatch(req.get('if-match')) : null;
  if (expected !== null && !takesIfMatch) {
    throw appError('precondition_failed', { detail: 'This resource has no ETag, so If-Match only accepts `*`.' });
  }
  return expected;
}

/** Limits per email can only be checked after the body was validated. */
function splitLimits(limits: readonly RateLimited[]) {
  const { perEmail = [], perCaller = [] } = Object.groupBy(limits, ({ by }) =>
    by === 'ip_and_email' ? 'perEmail' : 'perCaller',
  );
  return { perCaller, perEmail };
}

function emailOf(body: unknown): string | undefined {
  const email = typeof body === 'object' && body !== null && 'email' in body ? body.email : undefined;
  return typeof email === 'string' ? email : undefined;
}

function toStored(answer: Exclude<Answer, EventsAnswer>): StoredResponse {
  const { status, headers } = answer;
  switch (answer.kind) {
    case 'json':
      return { status, headers, body: { kind: 'json', data: answer.data } };
    case 'empty':
      return { status, headers, body: { kind: 'empty' } };
    case 'file':
    case 'download':
      throw new Error('a download cannot be stored for an idempotency key');
  }
}

/** A stream whose events were sent. It stays open until `end`, so that its response can be stored first. */
type SentStream = { end: () => void };

type Delivery = {
  send(req: Request, res: AppResponse, answer: Answer): Promise<void>;
  sendAgain(req: Request, res: AppResponse, stored: StoredResponse): Promise<void>;
  /** @param onEvent is called with each event that is sent */
  stream(res: AppResponse, answer: EventsAnswer, onEvent?: (event: StoredEvent) => void): Promise<SentStream>;
};

/** Sends responses of every kind, new and stored ones. */
function createDelivery(deps: {
  streams: OpenStreams;
  logger: Logger;
  isOutage: (error: unknown) => boolean;
}): Delivery {
  const { streams, logger, isOutage } = deps;

  const delivery: Delivery = {
    async send(req, res, answer) {
      switch (answer.kind) {
        case 'json':
          return sendJson(req, res, answer);
        case 'empty':
          return sendEmpty(res, answer.status, answer.headers);
        case 'file':
          res.set(answer.headers);
          return sendFile(req, res, answer.content);
        case 'download':
          return sendDownload(req, res, answer);
        case 'events':
          (await delivery.stream(res, answer)).end();
      }
    },

    async sendAgain(req, res, { status, headers, body }) {
      switch (body.kind) {
        case 'json':
          return sendJson(req, res, { status, data: body.data, headers });
        case 'empty':
          return sendEmpty(res, status, headers);
        case 'problem':
          return sendProblem(res, status, body.data, headers);
        case 'events': {
          const replay = async (events: EventSink) => {
            for (const event of body.events) await events.send(event);
          };
          (await delivery.stream(res, eventStream(replay, { headers }))).end();
        }
      }
    },

    async stream(res, { run, headers, isWatch }, onEvent) {
      res.status(200).set({ ...eventStreamHeaders, ...headers });
      const open = streams.open(res, { isWatch, sessionId: res.locals.sessionId });
      const send = (event: StoredEvent) => {
        onEvent?.(event);
        return open.send(event);
      };
      try {
        await run({ send, closed: open.closed });
      } catch (thrown) {
        const { code, message } = toAppError(thrown, isOutage);
        logger.error({ msg: 'stream failed', requestId: res.locals.requestId, code, err: thrown });
        await send({ event: 'error', data: { detail: message, code } });
      }
      return { end: () => open.end() };
    },
  };
  return delivery;
}
