import type { ErrorClass } from './contracts/workflow-runs.ts';

/**
 * The error catalogue: every failure that a client, a job or the Temporal UI can show, as data.
 *
 * `status` is the HTTP status of the problem response. `class` decides how a workflow handles it:
 * - `permanent`: retrying cannot help; the run fails immediately with this code.
 * - `transient`: network, overload or an unavailable store; retried with backoff for a day, then the run is parked.
 * - `operator`: an operator has to act (a setting, a token, a quota); the run is parked until then.
 */
const catalogue = {
  // Errors of HTTP requests
  malformed_request: { status: 400, class: 'permanent', title: 'The request could not be parsed' },
  invalid_cursor: {
    status: 400,
    class: 'permanent',
    title: 'The pagination cursor is damaged or belongs to another list',
  },
  unsupported_export_format: {
    status: 400,
    class: 'permanent',
    title: 'The export format is not supported',
  },
  unsupported_provider: { status: 400, class: 'permanent', title: 'This sign-in provider is not supported' },
  redirect_not_allowed: {
    status: 400,
    class: 'permanent',
    title: 'The redirect URL is not allowed by this deployment',
  },
  sign_in_invalid: {
    status: 400,
    class: 'permanent',
    title: 'The sign-in was started in another browser, was already completed or has expired',
  },
  sign_in_denied: { status: 400, class: 'permanent', title: 'The identity provider denied the sign-in' },
  invalid_token: { status: 401, class: 'permanent', title: 'The access token is missing, expired or not valid' },
  invalid_credentials: { status: 401, class: 'permanent', title: 'Email or password is wrong' },
  identity_not_verified: {
    status: 401,
    class: 'permanent',
    title: 'The ID token or userinfo response could not be verified',
  },
  refresh_invalid: { status: 401, class: 'permanent', title: 'The refresh token is no longer valid' },
  refresh_reused: { status: 401, class: 'permanent', title: 'The refresh token was used before' },
  wrong_password: { status: 403, class: 'permanent', title: 'The password is wrong' },
  email_not_verified: {
    status: 403,
    class: 'permanent',
    title: 'The identity provider has not verified the email address',
  },
  account_disabled: { status: 403, class: 'permanent', title: 'The account is disabled' },
  forbidden: { status: 403, class: 'permanent', title: 'The caller lacks the permission for this action' },
  insufficient_scope: { status: 403, class: 'permanent', title: 'The API key lacks the scope for this request' },
  session_required: { status: 403, class: 'permanent', title: 'This request does not accept API keys' },
  file_url_invalid: { status: 403, class: 'permanent', title: 'The file URL is not signed by this service' },
  file_url_expired: { status: 403, class: 'permanent', title: 'The file URL has expired' },
  not_found: { status: 404, class: 'permanent', title: 'The resource does not exist' },
  document_not_found: { status: 404, class: 'permanent', title: 'The document does not exist or is not readable' },
  session_not_found: { status: 404, class: 'permanent', title: 'The session has ended or is not yours' },
  api_key_not_found: { status: 404, class: 'permanent', title: 'The API key does not exist or was revoked' },
  export_not_found: { status: 404, class: 'permanent', title: 'The export no longer exists' },
  preview_not_found: { status: 404, class: 'permanent', title: 'The document has no preview' },
  chunk_not_found: { status: 404, class: 'permanent', title: 'The chunk does not exist or is not readable' },
  folder_not_found: { status: 404, class: 'permanent', title: 'The folder does not exist or is not readable' },
  draft_not_found: { status: 404, class: 'permanent', title: 'The draft does not exist or is not readable' },
  version_not_found: { status: 404, class: 'permanent', title: 'The version does not exist' },
  agent_not_found: { status: 404, class: 'permanent', title: 'The agent does not exist or is not readable' },
  anchor_words_not_initialized: { status: 404, class: 'permanent', title: 'The agent has no anchor words' },
  member_not_found: { status: 404, class: 'permanent', title: 'The member does not exist' },
  user_not_found: { status: 404, class: 'permanent', title: 'The user does not exist' },
  avatar_not_found: { status: 404, class: 'permanent', title: 'The user has no avatar or is not visible to you' },
  team_not_found: { status: 404, class: 'permanent', title: 'The team does not exist or is not yours' },
  chat_not_found: { status: 404, class: 'permanent', title: 'The chat does not exist or is not readable' },
  round_not_found: { status: 404, class: 'permanent', title: 'The round does not exist in this chat' },
  job_not_found: { status: 404, class: 'permanent', title: 'The job does not exist or is not readable' },
  method_not_allowed: { status: 405, class: 'permanent', title: 'The resource does not support this method' },
  request_timeout: { status: 408, class: 'transient', title: 'The request body was not received in time' },
  password_already_set: { status: 409, class: 'permanent', title: 'The account already has a password' },
  email_taken: { status: 409, class: 'permanent', title: 'An account with this email already exists' },
  name_taken: { status: 409, class: 'permanent', title: 'The name is already in use' },
  last_org_admin: { status: 409, class: 'permanent', title: 'The organization would be left without an admin' },
  version_has_descendants: { status: 409, class: 'permanent', title: 'The parent version already has child versions' },
  last_version: { status: 409, class: 'permanent', title: 'The only version of a draft cannot be deleted' },
  system_folder: { status: 409, class: 'permanent', title: 'Root folders cannot be renamed, moved or deleted' },
  folder_cycle: { status: 409, class: 'permanent', title: 'A folder cannot be moved into itself' },
  folder_not_empty: { status: 409, class: 'permanent', title: 'The folder contains folders or documents' },
  folder_too_deep: { status: 409, class: 'permanent', title: 'The maximum depth of nested folders is exceeded' },
  folder_too_large: {
    status: 409,
    class: 'permanent',
    title: 'The folder contains too many documents to be changed at once',
  },
  folder_limit_reached: { status: 409, class: 'permanent', title: 'The organization has reached its limit of folders' },
  last_link: { status: 409, class: 'permanent', title: 'A document cannot be removed from its only folder' },
  draft_limit_reached: { status: 409, class: 'permanent', title: 'The user has reached their limit of drafts' },
  version_limit_reached: { status: 409, class: 'permanent', title: 'The draft has reached its limit of versions' },
  member_limit_reached: { status: 409, class: 'permanent', title: 'The organization has reached its limit of members' },
  api_key_limit_reached: {
    status: 409,
    class: 'permanent',
    title: 'The organization has reached its limit of API keys',
  },
  agent_limit_reached: { status: 409, class: 'permanent', title: 'The organization has reached its limit of agents' },
  document_limit_reached: {
    status: 409,
    class: 'permanent',
    title: 'The organization has reached its limit of documents',
  },
  storage_quota_exceeded: { status: 409, class: 'permanent', title: 'The organization has used up its storage quota' },
  document_not_converted: {
    status: 409,
    class: 'permanent',
    title: 'The document has not been converted to text yet',
  },
  not_ready: { status: 409, class: 'permanent', title: 'The draft version lacks what an agent needs' },
  agent_deleted: { status: 409, class: 'permanent', title: 'The agent of this chat was deleted' },
  round_in_progress: { status: 409, class: 'permanent', title: 'The chat is still generating a reply' },
  idempotency_in_flight: {
    status: 409,
    class: 'permanent',
    title: 'A request with this Idempotency-Key is still running',
  },
  precondition_failed: { status: 412, class: 'permanent', title: 'The resource has changed since it was read' },
  payload_too_large: { status: 413, class: 'permanent', title: 'The request body is larger than allowed' },
  unsupported_media_type: {
    status: 415,
    class: 'permanent',
    title: 'The media type of the request body is not supported',
  },
  range_not_satisfiable: { status: 416, class: 'permanent', title: 'The requested byte range is outside the file' },
  validation_failed: { status: 422, class: 'permanent', title: 'The request has invalid fields' },
  too_many_documents: { status: 422, class: 'permanent', title: 'The response would list too many documents' },
  preview_too_large: {
    status: 422,
    class: 'permanent',
    title: 'The text is too long or has too many chunks for a chunking preview',
  },
  unknown_model: { status: 422, class: 'permanent', title: 'The deployment does not offer this model' },
  url_not_allowed: { status: 422, class: 'permanent', title: 'Fetching from this URL is not allowed' },
  url_unreachable: { status: 422, class: 'permanent', title: 'The URL could not be fetched' },
  idempotency_key_reused: {
    status: 422,
    class: 'permanent',
    title: 'The Idempotency-Key was used for another request',
  },
  rate_limited: { status: 429, class: 'transient', title: 'Too many requests' },
  internal_error: { status: 500, class: 'transient', title: 'An unexpected error occurred in the service' },
  service_unavailable: { status: 503, class: 'transient', title: 'A required service is unavailable' },

  // Errors of ingestion
  unsupported_format: { status: 422, class: 'permanent', title: 'The format of the file is not supported' },
  encrypted_document: { status: 422, class: 'permanent', title: 'The file is encrypted' },
  corrupt_document: { status: 422, class: 'permanent', title: 'The file is damaged' },
  empty_document: { status: 422, class: 'permanent', title: 'The file contains no text' },
  too_large: { status: 422, class: 'permanent', title: 'The file is too large to convert' },
  conversion_timeout: { status: 422, class: 'permanent', title: 'Converting the file timed out' },
  converter_unavailable: {
    status: 422,
    class: 'permanent',
    title: 'This file format requires LibreOffice or Gotenberg, and the deployment has neither',
  },
  converter_refused: {
    status: 503,
    class: 'operator',
    title: 'The PDF renderer rejected the request or did not return a readable PDF',
  },
  malware_found: { status: 403, class: 'permanent', title: 'The malware scanner found malware in the file' },
  superseded: { status: 409, class: 'permanent', title: 'A newer ingestion of the document replaced this one' },
  blob_store_refused: {
    status: 503,
    class: 'operator',
    title: 'The blob store rejected the credentials or has no such bucket',
  },
  blob_missing: { status: 500, class: 'permanent', title: 'The blob store has lost the stored file' },
  vectors_missing: { status: 500, class: 'permanent', title: 'The vector store lost vectors of the document' },

  // Errors of jobs and their workflow runs
  export_running: { status: 409, class: 'permanent', title: 'An export of the organization is already running' },
  job_open: { status: 409, class: 'permanent', title: 'The job is still queued or running' },
  job_not_parked: { status: 409, class: 'permanent', title: 'The job is not parked' },
  deletion_is_final: { status: 409, class: 'permanent', title: 'A deletion job cannot be cancelled or skipped' },
  document_deleted: { status: 409, class: 'permanent', title: 'The document of this job was deleted' },
  job_finished: { status: 409, class: 'permanent', title: 'The job has already finished' },
  files_skipped: { status: 409, class: 'permanent', title: 'Some files of the archive were not imported' },
  skipped: { status: 409, class: 'permanent', title: 'The parked job was skipped by an operator' },
  reembedding_incomplete: {
    status: 500,
    class: 'permanent',
    title: 'Some documents could not be embedded with the new model',
  },
  erasure_incomplete: {
    status: 500,
    class: 'operator',
    title: 'A document of a deleted account could not be deleted',
  },
  no_progress: { status: 500, class: 'permanent', title: 'The workflow was stopped because it made no progress' },
  run_terminated: { status: 500, class: 'permanent', title: 'The workflow was terminated' },

  // Errors of models
  model_unavailable: { status: 503, class: 'transient', title: 'The model service is unreachable or overloaded' },
  model_response_invalid: {
    status: 502,
    class: 'transient',
    title: 'The model service returned an invalid response',
  },
  model_rejected: { status: 502, class: 'permanent', title: 'The model service rejected the request' },
  context_too_long: {
    status: 422,
    class: 'permanent',
    title: 'The text does not fit into the context window of the model',
  },
  model_not_configured: {
    status: 503,
    class: 'operator',
    title: 'The model service rejected the API key or does not have the model',
  },
  embedding_model_changed: {
    status: 503,
    class: 'operator',
    title: 'The embedding model returns vectors with another dimension than the vectors stored for it',
  },

  // Errors of evaluations
  unsupported_report_format: {
    status: 400,
    class: 'permanent',
    title: 'The report format must be markdown, json or html',
  },
  evaluation_not_found: { status: 404, class: 'permanent', title: 'The version has no evaluation report' },
  comparison_not_found: { status: 404, class: 'permanent', title: 'The comparison does not exist' },
  evaluation_case_limit_reached: {
    status: 409,
    class: 'permanent',
    title: 'The organization has reached its daily limit of evaluation cases',
  },
  no_baseline: { status: 422, class: 'permanent', title: 'There is no baseline version to compare with' },
  unknown_golden_case: { status: 422, class: 'permanent', title: 'The golden case does not exist in this version' },
  eval_incomplete: {
    status: 502,
    class: 'permanent',
    title: 'The evaluation is incomplete: some prompts or replies were not judged',
  },
  eval_timeout: { status: 504, class: 'transient', title: 'The evaluation did not finish within the requested time' },
  judge_response_invalid: {
    status: 502,
    class: 'permanent',
    title: 'The judge model returned no valid verdict, even after a retry',
  },
  evaluator_unavailable: {
    status: 503,
    class: 'operator',
    title: 'The deployment has no model that can act as judge',
  },

  // Errors of connections and their providers
  consent_invalid: {
    status: 400,
    class: 'permanent',
    title: 'The OAuth consent was started in another session, was used before or has expired',
  },
  consent_denied: { status: 400, class: 'permanent', title: 'The user or the provider denied the OAuth consent' },
  provider_not_found: { status: 404, class: 'permanent', title: 'The service does not know this provider' },
  connection_not_found: { status: 404, class: 'permanent', title: 'The connection does not exist or is not yours' },
  remote_file_not_found: {
    status: 404,
    class: 'permanent',
    title: 'The file or folder does not exist at the provider',
  },
  sync_not_configured: {
    status: 409,
    class: 'permanent',
    title: 'The connection has no `config.sync`, which names the folder to sync',
  },
  mass_deletion: {
    status: 409,
    class: 'operator',
    title: 'The sync would delete many documents and needs a confirmation',
  },
  wrong_auth_kind: { status: 409, class: 'permanent', title: 'The provider requires another kind of credentials' },
  connection_limit_reached: {
    status: 409,
    class: 'permanent',
    title: 'The organization has reached its limit of connections',
  },
  cursor_expired: {
    status: 409,
    class: 'permanent',
    title: 'The provider no longer accepts the change cursor of the sync',
  },
  not_connected: { status: 409, class: 'operator', title: 'The organization is not connected to the provider' },
  not_granted: { status: 409, class: 'operator', title: 'The connection lacks a required OAuth scope or permission' },
  needs_reauth: {
    status: 409,
    class: 'operator',
    title: 'The provider rejected the stored credentials of the connection: connect it again',
  },
  connection_check_failed: {
    status: 422,
    class: 'permanent',
    title: 'The connection check failed: the provider rejected the credentials or settings',
  },
  provider_not_configured: {
    status: 501,
    class: 'operator',
    title: 'The deployment has no OAuth client for the provider, or the provider rejected it',
  },
  provider_rejected: { status: 502, class: 'permanent', title: 'The external provider rejected the request' },
  provider_response_invalid: {
    status: 502,
    class: 'transient',
    title: 'The provider returned an invalid response',
  },
  provider_unavailable: { status: 503, class: 'transient', title: 'The provider is unreachable or overloaded' },
  provider_throttled: { status: 503, class: 'transient', title: 'The provider is rate limiting requests' },
  credentials_unreadable: {
    status: 503,
    class: 'operator',
    title: 'Stored credentials cannot be decrypted with the encryption keys of the deployment',
  },

  // Errors of tool calls; they are shown to the model and in the round
  untrusted_argument: {
    status: 403,
    class: 'permanent',
    title: 'A tool argument contains text or a URL from an untrusted source',
  },
  unknown_tool: { status: 404, class: 'permanent', title: 'The tool does not exist' },
  tool_call_repeated: { status: 409, class: 'permanent', title: 'The tool was already called with these arguments' },
  tool_limit_reached: { status: 409, class: 'permanent', title: 'The reply has reached its limit of tool calls' },
  tool_arguments_invalid: { status: 422, class: 'permanent', title: 'The tool arguments are invalid' },
  tool_failed: { status: 502, class: 'transient', title: 'The tool call failed' },
  tool_timeout: { status: 504, class: 'transient', title: 'The tool call timed out' },

  // Errors of chat replies
  interrupted: { status: 503, class: 'transient', title: 'The generation of the reply was interrupted' },
} as const satisfies Record<string, { status: number; class: ErrorClass; title: string }>;

export type ErrorCode = keyof typeof catalogue;

export type FieldError = { path: string; message: string; code: string };

type AppErrorOptions = {
  /** Tells the client what was wrong and what to do. It must not contain secrets, stack traces or SQL. */
  detail?: string;
  errors?: FieldError[];
  retryAfterSeconds?: number;
  cause?: unknown;
};

export class AppError extends Error {
  override readonly name = 'AppError';
  readonly code: ErrorCode;
  readonly status: number;
  readonly errorClass: ErrorClass;
  readonly title: string;
  readonly errors: FieldError[] | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, options: AppErrorOptions = {}) {
    const entry = catalogue[code];
    super(options.detail ?? entry.title, { cause: options.cause });
    this.code = code;
    this.status = entry.status;
    this.errorClass = entry.class;
    this.title = entry.title;
    this.errors = options.errors;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

export function appError(code: ErrorCode, options?: AppErrorOptions): AppError {
  return new AppError(code, options);
}

export function fieldError(path: string, message: string, code = 'invalid'): AppError {
  return appError('validation_failed', { detail: `${path}: ${message}`, errors: [{ path, message, code }] });
}

/** An error about several fields, which its detail names too. Each has the code of the error. */
export function fieldsError(code: ErrorCode, fields: readonly Omit<FieldError, 'code'>[]): AppError {
  return appError(code, {
    detail: fields.map(({ path, message }) => `${path} ${message}`).join('; '),
    errors: fields.map((field) => ({ ...field, code })),
  });
}

/** Version numbers from the header `If-Match`; null accepts any version. */
export type IfMatchVersions = readonly number[] | null;

/**
 * Throws `precondition_failed` unless `version` is one of the expected versions. The caller must have locked the row in
 * the transaction of the write, so that only one of several concurrent writers with the same ETag succeeds.
 */
export function requireExpectedVersion(expected: IfMatchVersions, { version }: { version: number }): void {
  if (expected !== null && !expected.includes(version)) {
    throw appError('precondition_failed', { detail: 'Read the resource again and repeat the change.' });
  }
}

export function isErrorCode(word: string): word is ErrorCode {
  return Object.hasOwn(catalogue, word);
}

export function listErrorCatalogue(): { code: ErrorCode; status: number; class: ErrorClass; title: string }[] {
  return (Object.keys(catalogue) as ErrorCode[]).map((code) => ({ code, ...catalogue[code] }));
}
