import type { Readable } from 'node:stream';
import { z } from 'zod';
import type { PolicyAction } from '#src/domain/access/policy.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import type { ErrorCode, IfMatchVersions } from '#src/errors.ts';
import type {
  DownloadAnswer,
  EmptyAnswer,
  EventStreamAnswer,
  FileAnswer,
  HttpAnswer,
  JsonAnswer,
} from '../response/answers.ts';
import { keyErrorOfRoute } from './key-scopes.ts';
import type { RateLimitRule } from './request-limits.ts';

/**
 * Access to a route. `public`: no authentication. `user`: any signed-in user, for own resources and filtered lists. An
 * action: users with this permission for the resource in the path. There is no default.
 */
export type RouteAccess = 'public' | 'user' | PolicyAction;
type RouteMethod = 'get' | 'post' | 'put' | 'patch' | 'delete';

export type RouteResponseSpec =
  | { description: string; schema: z.ZodType }
  | { description: string; contentType: string | readonly string[] }
  | { description: string; contentType: 'text/event-stream'; events: z.ZodType }
  | { description: string };

/** A response of Server-Sent Events; `events` is a union of their data by `type`, which the stream adds. */
export function eventStreamResponse<Events extends z.ZodType>(events: Events) {
  return { description: 'Server-Sent Events', contentType: 'text/event-stream' as const, events };
}

type Responses = Readonly<Record<number, RouteResponseSpec>>;

/** `announcedBytes` is a lower bound of the size, from `Content-Length`; 0 without that header. */
export type IncomingUploadFile = { fileName: string; mediaType: string; content: Readable; announcedBytes: number };

export type PathParams = Readonly<Record<string, string | undefined>>;

/** A stored upload. An `Idempotency-Key` treats files with equal name and `sha256` as the same. */
type ReceivedFile = { fileName: string; sha256: string };

type FileForm<Fields extends z.ZodType, Stored extends ReceivedFile> = {
  fields: Fields;
  store: (actor: RequestActor, upload: IncomingUploadFile, params: PathParams) => Promise<Stored>;
  discard(stored: Stored): Promise<void>;
};

type MultipartBody<
  Fields extends z.ZodType = z.ZodType,
  Kind extends 'multipart' | 'multipart_or_json' = 'multipart' | 'multipart_or_json',
  Stored extends ReceivedFile = ReceivedFile,
> = FileForm<Fields, Stored> & { kind: Kind };

/**
 * A form whose part `file` is streamed to `store`; `fields` validates the other parts. If the request fails, `discard`
 * receives the stored file; it must keep a file that a row already refers to.
 */
export function multipartBody<Fields extends z.ZodType, Stored extends ReceivedFile>(
  spec: FileForm<Fields, Stored>,
): MultipartBody<Fields, 'multipart', Stored> {
  return { kind: 'multipart', ...spec };
}

export function multipartOrJsonBody<Fields extends z.ZodType, Stored extends ReceivedFile>(
  spec: FileForm<Fields, Stored>,
): MultipartBody<Fields, 'multipart_or_json', Stored> {
  return { kind: 'multipart_or_json', ...spec };
}

type FormBody<Fields extends z.ZodType = z.ZodType> = { kind: 'form_or_json'; fields: Fields };

export function formOrJsonBody<Fields extends z.ZodType>(fields: Fields): FormBody<Fields> {
  return { kind: 'form_or_json', fields };
}

type BodySpec = z.ZodType | MultipartBody | FormBody;

type BodyOf<Body> =
  Body extends MultipartBody<infer Fields, infer Kind, infer Stored>
    ? z.output<Fields> & { file: Kind extends 'multipart' ? Stored : Stored | undefined }
    : Body extends FormBody<infer Fields>
      ? z.output<Fields>
      : Body extends z.ZodType
        ? z.output<Body>
        : undefined;

type OutputOf<Schema> = Schema extends z.ZodType ? z.output<Schema> : Record<never, never>;

type AnswerOf<Spec extends Responses> = {
  [Status in keyof Spec & number]: Spec[Status] extends { schema: infer Schema extends z.ZodType }
    ? JsonAnswer<Status, z.input<Schema>>
    : Spec[Status] extends { contentType: string | readonly string[] }
      ? EventStreamAnswer | FileAnswer | DownloadAnswer
      : EmptyAnswer<Status>;
}[keyof Spec & number];

export type RouteContext<WhoMayCall extends RouteAccess, Params, Query, Body> = {
  actor: WhoMayCall extends 'public' ? undefined : RequestActor;
  sessionId: WhoMayCall extends 'public' ? undefined : string;
  /**
   * Reads the caller's rights again, for checks during a long response. Throws `invalid_token` if the session has
   * ended.
   */
  actorNow: WhoMayCall extends 'public' ? undefined : () => Promise<Actor>;
  params: Params;
  query: Query;
  body: Body;
  requestId: string;
  client: { network: string; userAgent: string | null };
  publicUrl: string;
  idempotencyKey: string | null;
  /** `newId` is the id of the resource that an idempotent route creates; it is the same for a repeated request. */
  newId: string;
  lastEventId: string | null;
  waitSeconds: number | null;
  wantsFresh: boolean;
  signal: AbortSignal;
  /** Versions in `If-Match`. The service compares them with the row that it has locked for the write. */
  expectedVersions: IfMatchVersions;
};

type RouteFacts = {
  method: RouteMethod;
  path: string;
  operationId: string;
  tag: string;
  summary: string;
  /** `isSafe: false` marks a GET with side effects. Such a route rejects HEAD requests, which link scanners send. */
  isSafe?: false;
  /** Allows `If-Match` for a PATCH or PUT. The resource's GET must respond with `okAnswerWithVersion`. */
  takesIfMatch?: true;
  /** An idempotent route supports `Idempotency-Key`: it creates one resource, under `newId`. */
  idempotent?: true;
  resumable?: true;
  /** The route waits for background work for as long as `Prefer: wait=N` says (`waitSeconds`). */
  waits?: true;
  limits?: readonly RateLimitRule[];
  bodyLimitBytes?: number;
  /** A handler that fetches and stores a file counts as an upload while it runs. */
  fetchesFile?: true;
  errors?: readonly ErrorCode[];
};

type RouteDefinition<
  WhoMayCall extends RouteAccess,
  Spec extends Responses,
  Params extends z.ZodType | undefined,
  Query extends z.ZodType | undefined,
  Body extends BodySpec | undefined,
> = RouteFacts & {
  access: WhoMayCall;
  params?: Params;
  query?: Query;
  body?: Body;
  responses: Spec;
  handle(
    context: RouteContext<WhoMayCall, OutputOf<Params>, OutputOf<Query>, BodyOf<Body>>,
  ): Promise<AnswerOf<Spec>> | AnswerOf<Spec>;
};

export type HttpRoute = RouteFacts & {
  access: RouteAccess;
  params?: z.ZodType | undefined;
  query?: z.ZodType | undefined;
  body?: BodySpec | undefined;
  responses: Responses;
  handle(context: RouteContext<RouteAccess, unknown, unknown, unknown>): Promise<HttpAnswer> | HttpAnswer;
};

/** Declares an endpoint. Responses of `handle` that `responses` does not declare do not compile. */
export function defineRoute<
  WhoMayCall extends RouteAccess,
  const Spec extends Responses,
  Params extends z.ZodType | undefined = undefined,
  Query extends z.ZodType | undefined = undefined,
  Body extends BodySpec | undefined = undefined,
>(definition: RouteDefinition<WhoMayCall, Spec, Params, Query, Body>): HttpRoute {
  return definition;
}

export function rateLimitsOfRoute({ access, method, limits }: HttpRoute): readonly RateLimitRule[] {
  if (limits !== undefined || access === 'public') return limits ?? [];
  return [{ limit: method === 'get' ? 'read' : 'write', by: 'user' }];
}

export function isEventStreamRoute({ method, responses }: HttpRoute): boolean {
  const ok = responses[200];
  return method === 'get' && ok !== undefined && 'contentType' in ok && ok.contentType === 'text/event-stream';
}

/**
 * Whether the response is a file that a signed URL can show. The signature takes the place of the access token, in the
 * query parameter `signature`.
 */
export function isSignableRoute(route: HttpRoute): boolean {
  const { method, access, responses } = route;
  const ok = responses[200];
  return (
    method === 'get' && access !== 'public' && ok !== undefined && 'contentType' in ok && !isEventStreamRoute(route)
  );
}

/** All error codes of a route, also those of its access, body and method. OpenAPI and test client use them. */
export function errorCodesOfRoute(route: HttpRoute): ReadonlySet<ErrorCode> {
  return new Set<ErrorCode>([
    ...(route.errors ?? []),
    ...(route.access === 'public' ? [] : (['invalid_token', keyErrorOfRoute(route)] as const)),
    ...(isRefusable(route.access) ? (['forbidden'] as const) : []),
    ...(route.access === 'public' && route.limits === undefined ? [] : (['rate_limited'] as const)),
    ...(isSignableRoute(route) ? (['file_url_invalid', 'file_url_expired'] as const) : []),
    ...(takesCursor(route) ? (['invalid_cursor'] as const) : []),
    ...(route.body === undefined
      ? []
      : (['malformed_request', 'payload_too_large', 'request_timeout', 'unsupported_media_type'] as const)),
    'validation_failed',
    ...(route.idempotent ? (['malformed_request', 'idempotency_in_flight', 'idempotency_key_reused'] as const) : []),
    ...(route.method === 'patch' || route.method === 'put' ? (['precondition_failed'] as const) : []),
    'internal_error',
    'service_unavailable',
  ]);
}

/**
 * Whether a route can respond with 403, which a user gets who may read but not change a resource. Resources that the
 * user may not read give 404.
 */
function isRefusable(access: RouteAccess): boolean {
  return access !== 'public' && access !== 'user' && !access.endsWith(':read');
}

function takesCursor({ query }: HttpRoute): boolean {
  return query instanceof z.ZodObject && 'cursor' in query.shape;
}
