import type { Request } from 'express';
import type { Logger } from 'pino';
import { NIL, v7 as uuidv7 } from 'uuid';
import { z } from 'zod';
import type { ExpectedVersions } from '#src/domain/expected-versions.ts';
import { can } from '#src/domain/policy.ts';
import type { Actor, RequestActor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { IdempotencyKey, IdempotencyStore, StoredEvent, StoredResponse } from '#src/ports/idempotency-store.ts';
import type { FairQueue } from '#src/ports/limits.ts';
import { type Answer, type EventsAnswer, noContent } from './answers.ts';
import type { Authenticate } from './authenticate.ts';
import { clientNetwork } from './client-network.ts';
import type { Concurrency } from './concurrency.ts';
import { readIfMatch } from './conditional.ts';
import { createDelivery } from './delivery.ts';
import { fingerprintOf, readIdempotencyKey, withIdempotency } from './idempotency.ts';
import type { OpenStreams } from './open-streams.ts';
import { parseParams } from './params.ts';
import { preferredWaitSeconds, wantsFresh } from './preferences.ts';
import { problemHeaders, toAppError, toProblem } from './problem.ts';
import type { RateLimited, RateLimiting } from './rate-limiting.ts';
import { type ReceivedBody, receiveBody } from './receive-body.ts';
import type { AppResponse } from './request-log.ts';
import { isEventStream, limitsOf, type Route } from './route.ts';
import { soundInput } from './sound-input.ts';
import { isUpload } from './upload.ts';
import { validate } from './validate.ts';

export type DispatchDeps = {
  authenticate: Authenticate;
  idempotency: IdempotencyStore;
  /** Makes fingerprints of requests. */
  fingerprintKey: Buffer;
  streams: OpenStreams;
  logger: Logger;
  rateLimit: RateLimiting;
  concurrency: Concurrency;
  /** Reads are worked on in turns of organizations. */
  readInTurn: FairQueue;
  /** Where clients find the API; null: where their request went. */
  publicUrl: string | null;
  /** Is this the error of a database that cannot be reached? */
  isOutage: (error: unknown) => boolean;
};

/** Of a route that takes none: what is sent all the same is refused, as everywhere. */
const noQuery = z.strictObject({});

/** Who sends a request, and in which session; nobody where the route is public. */
type Admitted =
  | { actor: RequestActor; sessionId: string; actorNow: () => Promise<Actor> }
  | { actor: undefined; sessionId: undefined; actorNow: undefined };
type Dispatch = (req: Request, res: AppResponse) => Promise<void>;

/** Takes a request through its route: who, what, once, and the answer. */
export function createDispatcher(deps: DispatchDeps) {
  const { authenticate, idempotency, rateLimit, concurrency, readInTurn, logger, isOutage } = deps;
  const delivery = createDelivery(deps);

  function dispatch(route: Route): Dispatch {
    const { ofCaller, ofEmail } = splitLimits(limitsOf(route));
    const kind = isEventStream(route) ? 'streams' : 'requests';
    const isRead = kind === 'requests' && ofCaller.some(({ limit }) => limit === 'read');
    return async (req, res) => {
      let free = () => {};
      try {
        await serve(req, res, (place) => {
          free = place;
        });
      } finally {
        // Whichever ends last: a client that leaves ends no work.
        if (res.closed) free();
        else res.once('close', free);
      }
    };

    async function serve(req: Request, res: AppResponse, hold: (place: () => void) => void): Promise<void> {
      res.locals.route = route.path;
      const { requestId } = res.locals;
      const leaving = new AbortController();
      res.once('close', () => {
        if (!res.writableFinished) leaving.abort();
      });

      const { actor, sessionId, actorNow } = await admit(route, req, requestId);
      if (actor !== undefined) {
        Object.assign(res.locals, { orgId: actor.orgId, userId: actor.userId, sessionId });
        if (res.destroyed) return;
        hold(concurrency.take(kind, actor));
      }
      const subject = { ip: req.ip, userId: actor?.userId, email: undefined };
      await rateLimit(ofCaller, subject, res);
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
        signal: leaving.signal,
        expectedVersions: expectedVersionsOf(route, req),
      };

      // Only until the body has arrived: an answer may take an hour.
      const endUpload = actor && isUpload(route, req) ? concurrency.take('uploads', actor) : undefined;
      const body = await receiveBody(route, req, actor, request.params).finally(endUpload);
      let isBodyUsed = false;
      const call = async (newId = route.idempotent ? uuidv7() : NIL): Promise<Answer> => {
        const parsed = body.parse();
        await rateLimit(ofEmail, { ...subject, email: emailOf(parsed) }, res);
        // A body may come slowly: its sender may have lost rights meanwhile. That the token has expired is no matter.
        const sender =
          route.body === undefined || !actorNow ? {} : { actor: permitted(route, await actorNow(), requestId) };
        // The handler goes on when the client leaves.
        const endFetch = actor && route.fetchesFile ? concurrency.take('uploads', actor) : undefined;
        const handled = async () => route.handle({ ...request, ...sender, newId, body: parsed });
        // When its turn comes, the client may have left.
        const readInItsTurn = async () => (leaving.signal.aborted ? noContent() : handled());
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
          // With another secret it is the same request, and may well be accepted: only its success is kept.
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

  /** Refuses what needs no row to be decided. */
  function permitted(route: Route, actor: Actor, requestId: string): RequestActor {
    if (route.access === 'organization:administer' && !can(actor, route.access, actor)) {
      throw appError('forbidden', { detail: 'Only an admin of the organization may do this.' });
    }
    return { ...actor, requestId };
  }

  async function discard(body: ReceivedBody, requestId: string): Promise<void> {
    await body.discard().catch((error: unknown) => {
      logger.warn({ msg: 'an upload that is not needed could not be removed', requestId, err: error });
    });
  }

  /** Works under a key, or finds the kept answer; resolves with what sends it (a stream was sent on the way). */
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
      // Only now, when the key is kept: a client that asks again at once must find it.
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

/** Throws `precondition_failed` for a PATCH or PUT of what has no version. Other methods ignore `If-Match`. */
function expectedVersionsOf({ method, takesIfMatch }: Route, req: Request): ExpectedVersions {
  const expected = method === 'patch' || method === 'put' ? readIfMatch(req.get('if-match')) : null;
  if (expected !== null && !takesIfMatch) {
    throw appError('precondition_failed', { detail: 'This address has no ETag that If-Match could name.' });
  }
  return expected;
}

/** An email is known only once the body is checked. */
function splitLimits(limits: readonly RateLimited[]) {
  const { ofEmail = [], ofCaller = [] } = Object.groupBy(limits, ({ by }) =>
    by === 'ip_and_email' ? 'ofEmail' : 'ofCaller',
  );
  return { ofCaller, ofEmail };
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
      throw new Error('a download cannot be kept under an idempotency key');
  }
}
