import { createHmac } from 'node:crypto';
import type { Request } from 'express';
import type { Logger } from 'pino';
import { NIL, v7 as uuidv7 } from 'uuid';
import { z } from 'zod';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { canonicalJson } from '#src/domain/text/canonical-json.ts';
import { appError, type IfMatchVersions } from '#src/errors.ts';
import type {
  IdempotencyKey,
  IdempotencyStore,
  ServerSentEvent,
  StoredResponse,
} from '#src/ports/idempotency-store.ts';
import type { FairWorkQueue } from '#src/ports/load-control.ts';
import type { BearerAuthenticator, SessionAuthenticator } from '../request/authentication.ts';
import { type ReceivedRequestBody, receiveRequestBody } from '../request/body.ts';
import { isNoCacheRequested, networkOfClientAddress, parseIfMatch, preferredWaitSeconds } from '../request/headers.ts';
import { isUploadRequest } from '../request/upload.ts';
import type { UrlSignatures } from '../request/url-signatures.ts';
import { parsePathParams, requireInputStorableInPostgres, validateInput } from '../request/validation.ts';
import { createAnswerSender, type EventStreamAnswer, type HttpAnswer, noContentAnswer } from '../response/answers.ts';
import type { EventStreamRegistry } from '../response/event-streams.ts';
import { problemHeaders, toAppError, toProblem } from '../response/problem.ts';
import type { AppResponse } from '../server/middleware.ts';
import { requireKeyScope } from './key-scopes.ts';
import type { ConcurrencyLimiter, RateLimitCheck, RateLimitRule } from './request-limits.ts';
import { type HttpRoute, isEventStreamRoute, isSignableRoute, rateLimitsOfRoute } from './route.ts';
import type { Dispatch } from './route-table.ts';

type DispatchDeps = {
  authenticate: BearerAuthenticator;
  authenticateSession: SessionAuthenticator;
  signatures: Pick<UrlSignatures, 'open'>;
  idempotency: IdempotencyStore;
  fingerprintKey: Buffer;
  streams: EventStreamRegistry;
  logger: Logger;
  rateLimit: RateLimitCheck;
  concurrency: ConcurrencyLimiter;
  readInTurn: FairWorkQueue;
  publicUrl: string | null;
  isOutage: (error: unknown) => boolean;
};

const noQuery = z.strictObject({});

type Admitted =
  | { actor: RequestActor; sessionId: string; actorNow: () => Promise<Actor> }
  | { actor: undefined; sessionId: undefined; actorNow: undefined };

export function createDispatcher(deps: DispatchDeps) {
  const { idempotency, rateLimit, concurrency, readInTurn, logger, isOutage } = deps;
  const answerSender = createAnswerSender(deps);

  function dispatch(route: HttpRoute): Dispatch {
    const { perCaller, perEmail } = splitLimits(rateLimitsOfRoute(route));
    const kind = isEventStreamRoute(route) ? 'streams' : 'requests';
    const isRead = kind === 'requests' && perCaller.some(({ limit }) => limit === 'read');
    return async (req, res) => {
      let releaseSlot = () => {};
      try {
        await serve(req, res, (release) => {
          releaseSlot = release;
        });
      } finally {
        // Releases the request's slot when the handler has finished and the connection has ended, because a handler
        // continues after a disconnect.
        if (res.closed) releaseSlot();
        else res.once('close', releaseSlot);
      }
    };

    async function serve(req: Request, res: AppResponse, onSlotTaken: (release: () => void) => void): Promise<void> {
      res.locals.route = route.path;
      const { requestId } = res.locals;
      const disconnected = new AbortController();
      res.once('close', () => {
        if (!res.writableFinished) disconnected.abort();
      });

      const split = splitQuery(route, req);
      const { actor, sessionId, actorNow } = await admit(route, req, res, split);
      res.locals.isSigned = split.signature !== undefined || route.access === 'public';
      if (actor !== undefined) {
        Object.assign(res.locals, { orgId: actor.orgId, userId: actor.userId, sessionId });
        if (res.destroyed) return;
        onSlotTaken(concurrency.take(kind, actor));
      }
      const subject = { ip: req.ip, userId: actor?.userId, email: undefined };
      await rateLimit(perCaller, subject, res);
      const key = route.idempotent && readIdempotencyKey(req.headers['idempotency-key']);
      const request = {
        actor,
        sessionId,
        actorNow,
        params: parsePathParams(route.params, req.params),
        query: validateInput(route.query ?? noQuery, requireInputStorableInPostgres(split.query)),
        requestId,
        client: { network: networkOfClientAddress(req.ip), userAgent: req.get('user-agent') ?? null },
        publicUrl: deps.publicUrl ?? `${req.protocol}://${req.host}${req.baseUrl}`,
        idempotencyKey: key ?? null,
        lastEventId: req.get('last-event-id') ?? null,
        waitSeconds: preferredWaitSeconds(req.get('prefer')),
        wantsFresh: isNoCacheRequested(req.get('cache-control')),
        signal: disconnected.signal,
        expectedVersions: expectedVersionsOf(route, req),
      };

      // The upload slot is released when the body has arrived, because the response may take an hour.
      const releaseUploadSlot = actor && isUploadRequest(route, req) ? concurrency.take('uploads', actor) : undefined;
      const body = await receiveRequestBody(route, req, actor, request.params).finally(releaseUploadSlot);
      let isBodyUsed = false;
      const call = async (newId = route.idempotent ? uuidv7() : NIL): Promise<HttpAnswer> => {
        const parsed = body.parse();
        await rateLimit(perEmail, { ...subject, email: emailOf(parsed) }, res);
        // Reads the caller's rights again, because they may have changed while a slow body arrived. A token that
        // expired meanwhile is still accepted.
        const sender =
          route.body === undefined || !actorNow ? {} : { actor: permitted(route, await actorNow(), requestId) };
        const releaseFetchSlot = actor && route.fetchesFile ? concurrency.take('uploads', actor) : undefined;
        const handled = async () => route.handle({ ...request, ...sender, newId, body: parsed });
        const readInItsTurn = async () => (disconnected.signal.aborted ? noContentAnswer() : handled());
        const answer = await (isRead && actor ? readInTurn(actor.orgId, readInItsTurn) : handled()).finally(
          releaseFetchSlot,
        );
        isBodyUsed = true;
        return answer;
      };
      let send: () => Promise<void>;
      try {
        if (key && actor) {
          const name = { userId: actor.userId, route: `${route.method.toUpperCase()} ${route.path}`, key };
          const asked = { params: req.params, query: req.query, body: body.identity() };
          const fingerprint = fingerprintRequest(deps.fingerprintKey, asked);
          // For requests with secrets no error responses are stored: the fingerprint leaves out secrets such as a
          // password, so a repeated request may contain another, correct one.
          const storesErrors = !body.hasSecrets();
          send = await answerOnce(req, res, { key: name, fingerprint, storesErrors }, call);
        } else {
          const answer = await call();
          send = () => answerSender.send(req, res, answer);
        }
      } finally {
        if (!isBodyUsed) await discard(body, requestId);
      }
      await send();
    }
  }

  async function admit(
    route: HttpRoute,
    req: Request,
    res: AppResponse,
    { signature, query }: SplitQuery,
  ): Promise<Admitted> {
    if (route.access === 'public') return { actor: undefined, sessionId: undefined, actorNow: undefined };
    const target = { operationId: route.operationId, params: req.params, query };
    const { actor, sessionId, scopes, actorNow } = await (signature === undefined
      ? deps.authenticate(req.headers.authorization)
      : deps.authenticateSession(deps.signatures.open(signature, target)));
    if (scopes !== null) requireKeyScope(route, scopes);
    return { actor: permitted(route, actor, res.locals.requestId), sessionId, actorNow };
  }

  /** Checks `organization:administer`, which depends on no resource; services check all other permissions. */
  function permitted(route: HttpRoute, actor: Actor, requestId: string): RequestActor {
    if (route.access === 'organization:administer' && !mayPerformAction(actor, route.access, actor)) {
      throw appError('forbidden', { detail: 'Only an admin of the organization may do this.' });
    }
    return { ...actor, requestId };
  }

  async function discard(body: ReceivedRequestBody, requestId: string): Promise<void> {
    await body.discard().catch((error: unknown) => {
      logger.warn({ msg: 'unused upload not deleted', requestId, err: error });
    });
  }

  /**
   * Runs a request with an `Idempotency-Key`. Returns a function that sends the response, or ends an event stream that
   * was already sent.
   */
  async function answerOnce(
    req: Request,
    res: AppResponse,
    { key, fingerprint, storesErrors }: { key: IdempotencyKey; fingerprint: string; storesErrors: boolean },
    call: (newId: string) => Promise<HttpAnswer>,
  ): Promise<() => Promise<void>> {
    let endStream: (() => void) | undefined;
    const work = async (reservedId: string): Promise<StoredResponse> => {
      let answer: HttpAnswer;
      try {
        answer = await call(reservedId);
      } catch (thrown) {
        if (!storesErrors) throw thrown;
        return toStoredProblem(thrown, res);
      }
      if (answer.kind !== 'events') return toStored(answer);
      const events: ServerSentEvent[] = [];
      const sent = await answerSender.stream(res, answer, (event) => events.push(event));
      endStream = sent.end;
      return { status: answer.status, headers: answer.headers, body: { kind: 'events', events } };
    };
    const onLost = (error: unknown) => {
      logger.warn({ msg: 'idempotency key not kept', requestId: res.locals.requestId, err: error });
    };
    const { response, isReplay } = await withIdempotency(idempotency, key, fingerprint, work, onLost);
    if (isReplay) res.set('Idempotency-Replayed', 'true');
    return async () => {
      // Responses are stored before they are sent, so that an immediate repetition finds them.
      if (endStream === undefined) await answerSender.sendAgain(req, res, response);
      else endStream();
    };
  }

  function toStoredProblem(thrown: unknown, res: AppResponse): StoredResponse {
    const error = toAppError(thrown, isOutage);
    if (error.status >= 500) throw thrown;
    const body = { kind: 'problem' as const, data: toProblem(error, res.locals) };
    return { status: error.status, headers: problemHeaders(error, true), body };
  }

  return dispatch;
}

type SplitQuery = { signature: string | undefined; query: Request['query'] };

/** Takes the signature of a signed URL out of the query. An access token comes before it. */
function splitQuery(route: HttpRoute, req: Request): SplitQuery {
  if (!isSignableRoute(route)) return { signature: undefined, query: req.query };
  const { signature, ...query } = req.query;
  const isSigned = typeof signature === 'string' && req.headers.authorization === undefined;
  return { signature: isSigned ? signature : undefined, query };
}

/** Reads `If-Match` of a PATCH or PUT. Throws `precondition_failed` if the resource has no version. */
function expectedVersionsOf({ method, takesIfMatch }: HttpRoute, req: Request): IfMatchVersions {
  const expected = method === 'patch' || method === 'put' ? parseIfMatch(req.get('if-match')) : null;
  if (expected !== null && !takesIfMatch) {
    throw appError('precondition_failed', { detail: 'This resource has no ETag, so If-Match only accepts `*`.' });
  }
  return expected;
}

/** Separates the limits that count per email: they are checked later, because they need the validated body. */
function splitLimits(limits: readonly RateLimitRule[]) {
  const { perEmail = [], perCaller = [] } = Object.groupBy(limits, ({ by }) =>
    by === 'ip_and_email' ? 'perEmail' : 'perCaller',
  );
  return { perCaller, perEmail };
}

function emailOf(body: unknown): string | undefined {
  const email = typeof body === 'object' && body !== null && 'email' in body ? body.email : undefined;
  return typeof email === 'string' ? email : undefined;
}

function toStored(answer: Exclude<HttpAnswer, EventStreamAnswer>): StoredResponse {
  const { status, headers } = answer;
  switch (answer.kind) {
    case 'json':
      return { status, headers, body: { kind: 'json', data: answer.data } };
    case 'empty':
      return { status, headers, body: { kind: 'empty' } };
    case 'file':
    case 'download':
      throw new Error('an idempotent route cannot respond with a file or a download');
  }
}

/** Lease of an idempotency key, renewed while the request runs; after a crash the key is free when it expires. */
const leaseSeconds = 20;
const renewEveryMs = 5_000;

/** Statuses of responses that are not stored for a repeated Idempotency-Key, because a retry may succeed. */
const neverStored = new Set([401, 409, 429]);

/**
 * Maximum size of a stored response in characters; small, because stored responses do not count against a quota. If a
 * response was too large to be stored, a repeated request runs again with the same `newId`.
 */
const maxStoredLength = 64 * 1024;

export const idempotencyKeyPattern = /^[\x21-\x7e]{1,255}$/;

function readIdempotencyKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header === 'string' && idempotencyKeyPattern.test(header)) return header;
  throw appError('malformed_request', { detail: 'Idempotency-Key must have 1 to 255 visible ASCII characters.' });
}

/** Hashes a request with a secret key (HMAC): plain hashes would let readers of the database verify guesses. */
export function fingerprintRequest(key: Buffer, request: unknown): string {
  return createHmac('sha256', key).update(canonicalJson(request)).digest('hex');
}

function isStorable({ status, body }: StoredResponse): boolean {
  if (status >= 500 || neverStored.has(status)) return false;
  if (body.kind === 'events' && body.events.at(-1)?.event === 'error') return false;
  return JSON.stringify(body).length <= maxStoredLength;
}

/**
 * Runs `work` for one request per key at a time and stores its response for repeated requests. A request that repeats
 * an interrupted one gets the same `reservedId`. If `work` rejects, nothing is stored and the key is released.
 */
async function withIdempotency(
  store: IdempotencyStore,
  key: IdempotencyKey,
  fingerprint: string,
  work: (reservedId: string) => Promise<StoredResponse>,
  onLost: (error: unknown) => void,
): Promise<{ response: StoredResponse; isReplay: boolean }> {
  const claim = await store.claim(key, fingerprint, leaseSeconds);
  switch (claim.outcome) {
    case 'stored':
      return { response: claim.response, isReplay: true };
    case 'in_flight':
      throw appError('idempotency_in_flight', { retryAfterSeconds: 1 });
    case 'other_request':
      throw appError('idempotency_key_reused');
    case 'claimed':
  }

  const { leaseOwner, reservedId } = claim;
  const lease = setInterval(() => void store.renew(key, leaseOwner, leaseSeconds).catch(onLost), renewEveryMs);
  let response: StoredResponse | undefined;
  try {
    response = await work(reservedId);
    return { response, isReplay: false };
  } finally {
    clearInterval(lease);
    // If the response cannot be stored, the error is only logged, because the request has taken effect.
    const settled =
      response !== undefined && isStorable(response)
        ? store.complete(key, leaseOwner, response)
        : store.release(key, leaseOwner);
    await settled.catch(onLost);
  }
}
