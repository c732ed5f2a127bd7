import type { Readable } from 'node:stream';
import type { z } from 'zod';
import type { ExpectedVersions } from '#src/domain/expected-versions.ts';
import type { Action } from '#src/domain/policy.ts';
import type { Actor, RequestActor } from '#src/domain/visibility.ts';
import type { ErrorCode } from '#src/errors.ts';
import type { Answer, DownloadAnswer, EmptyAnswer, EventsAnswer, FileAnswer, JsonAnswer } from './answers.ts';
import type { RateLimited } from './rate-limiting.ts';

/**
 * Who may call: anybody; any signed-in user, for what is his own or what lists filter for him; or who may do this to
 * the resource that the path names. There is no default.
 */
export type Access = 'public' | 'user' | Action;
export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';

/** A success answer: JSON by `schema`, something else by `contentType` (any of several), or nothing. */
export type ResponseSpec =
  | { description: string; schema: z.ZodType }
  | { description: string; contentType: string | readonly string[] }
  | { description: string };

type Responses = Readonly<Record<number, ResponseSpec>>;

/** `announcedBytes`: the file has at least so many by the request's `Content-Length`; 0 without one. */
export type IncomingFile = { fileName: string; mediaType: string; content: Readable; announcedBytes: number };

/** Of the path, as the route's `params` has checked them. */
export type PathParams = Readonly<Record<string, string | undefined>>;

/** What a request's file has become; another one with the same name and `sha256` is the same. */
type ReceivedFile = { fileName: string; sha256: string };

type FileForm<Fields extends z.ZodType, Stored extends ReceivedFile> = {
  fields: Fields;
  store: (actor: RequestActor, upload: IncomingFile, params: PathParams) => Promise<Stored>;
  discard(stored: Stored): Promise<void>;
};

/** A form with one file part named `file`. See {@link multipart} and {@link multipartOrJson}. */
export type MultipartBody<
  Fields extends z.ZodType = z.ZodType,
  Kind extends 'multipart' | 'multipart_or_json' = 'multipart' | 'multipart_or_json',
  Stored extends ReceivedFile = ReceivedFile,
> = FileForm<Fields, Stored> & { kind: Kind };

/**
 * A body that is streamed: the part `file` goes to `store` as it arrives, other parts are checked by `fields` whether
 * they come before or after it. `discard` gets what was stored when the request fails after all; a row that was made of
 * it nevertheless keeps it.
 */
export function multipart<Fields extends z.ZodType, Stored extends ReceivedFile>(
  spec: FileForm<Fields, Stored>,
): MultipartBody<Fields, 'multipart', Stored> {
  return { kind: 'multipart', ...spec };
}

/** The same where the file may be missing: then the fields may come as JSON, too. They are checked by one schema. */
export function multipartOrJson<Fields extends z.ZodType, Stored extends ReceivedFile>(
  spec: FileForm<Fields, Stored>,
): MultipartBody<Fields, 'multipart_or_json', Stored> {
  return { kind: 'multipart_or_json', ...spec };
}

/** A form without a file, or the same fields as JSON. See {@link formOrJson}. */
export type FormBody<Fields extends z.ZodType = z.ZodType> = { kind: 'form_or_json'; fields: Fields };

/** Fields that come as `multipart/form-data` or as JSON, checked by one schema. */
export function formOrJson<Fields extends z.ZodType>(fields: Fields): FormBody<Fields> {
  return { kind: 'form_or_json', fields };
}

export type BodySpec = z.ZodType | MultipartBody | FormBody;

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
      ? EventsAnswer | FileAnswer | DownloadAnswer
      : EmptyAnswer<Status>;
}[keyof Spec & number];

export type RouteContext<WhoMayCall extends Access, Params, Query, Body> = {
  actor: WhoMayCall extends 'public' ? undefined : RequestActor;
  /** The session of the caller's token. */
  sessionId: WhoMayCall extends 'public' ? undefined : string;
  /** The caller as he has become meanwhile, for answers that take long; throws `invalid_token` once his session is over. */
  actorNow: WhoMayCall extends 'public' ? undefined : () => Promise<Actor>;
  params: Params;
  query: Query;
  body: Body;
  requestId: string;
  /** Where the request comes from: the network that its address stands for, and its `User-Agent`. */
  client: { network: string; userAgent: string | null };
  /** Where this client finds the API, without a slash at its end. */
  publicUrl: string;
  /** Of an idempotent route. */
  idempotencyKey: string | null;
  /**
   * Of an idempotent route, for what the request makes: a request that is repeated under its key, because it got no
   * answer, has it again.
   */
  newId: string;
  /** Where a reader of Server-Sent Events was who comes back: the id of the last event that he got. */
  lastEventId: string | null;
  /** How long the client wants to wait for work that goes on elsewhere (`Prefer: wait=N`); null when it does not say. */
  waitSeconds: number | null;
  /** The client does not want what was kept (`Cache-Control: no-cache`). */
  wantsFresh: boolean;
  /** Aborts when the client leaves before the answer is complete. */
  signal: AbortSignal;
  /** Of a route that takes `If-Match`. The service compares them with the row that it has locked for the write. */
  expectedVersions: ExpectedVersions;
};

type RouteFacts = {
  method: Method;
  /** Parameters as `:name`, named as in the contract. */
  path: string;
  operationId: string;
  tag: string;
  summary: string;
  /** Of a GET: whether asking twice is as asking once. One that is not takes no HEAD, with which scanners look ahead. */
  isSafe?: false;
  /** Of a PATCH or PUT: its resource has a version, and a GET answers it with {@link versioned}. */
  takesIfMatch?: true;
  /** Honours `Idempotency-Key`: for every request that creates something, which it does once for each `newId`. */
  idempotent?: true;
  /** Goes on behind the event that `Last-Event-ID` names. */
  resumable?: true;
  /** What its requests are counted against; beyond it they are 429. See {@link limitsOf} for those that name none. */
  limits?: readonly RateLimited[];
  /** Of a JSON body; 1 MB when not given. */
  bodyLimitBytes?: number;
  /** The handler fetches a file and stores it: it counts as an upload while it runs. */
  fetchesFile?: true;
  /** Problems beyond those that follow from the route itself ({@link problemsOf} in route-problems.ts). */
  errors?: readonly ErrorCode[];
};

export type RouteDefinition<
  WhoMayCall extends Access,
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

/** A route as the server and the OpenAPI document see it. */
export type Route = RouteFacts & {
  access: Access;
  params?: z.ZodType | undefined;
  query?: z.ZodType | undefined;
  body?: BodySpec | undefined;
  responses: Responses;
  handle(context: RouteContext<Access, unknown, unknown, unknown>): Promise<Answer> | Answer;
};

/**
 * Declares an endpoint as data: what it takes and answers is checked, typed and documented from the same object.
 * The types of `handle` follow from the schemas: an answer that no response describes does not compile.
 */
export function route<
  WhoMayCall extends Access,
  const Spec extends Responses,
  Params extends z.ZodType | undefined = undefined,
  Query extends z.ZodType | undefined = undefined,
  Body extends BodySpec | undefined = undefined,
>(definition: RouteDefinition<WhoMayCall, Spec, Params, Query, Body>): Route {
  return definition;
}

/** A route that names no limit is counted as a read or a write of its user. */
export function limitsOf({ access, method, limits }: Route): readonly RateLimited[] {
  if (limits !== undefined || access === 'public') return limits ?? [];
  return [{ limit: method === 'get' ? 'read' : 'write', by: 'user' }];
}

/** Does a GET of it stay open for as long as its client likes? */
export function isEventStream({ method, responses }: Route): boolean {
  const ok = responses[200];
  return method === 'get' && ok !== undefined && 'contentType' in ok && ok.contentType === 'text/event-stream';
}
