import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import type { RequestActor } from '#src/domain/visibility.ts';
import { readJsonBody } from './json-body.ts';
import type { PathParams, Route } from './route.ts';
import { withoutSecrets } from './secret-fields.ts';
import { isForm, receiveForm } from './upload.ts';
import { validate } from './validate.ts';

/** A body that has arrived but is not checked yet. */
export type ReceivedBody = {
  /** What makes two requests the same: the fields as sent, without secrets, and a file by its content. */
  identity: () => unknown;
  /** Does the identity leave anything out? */
  hasSecrets: () => boolean;
  parse: () => unknown;
  /** Removes what was stored of a request that is refused. */
  discard: () => Promise<void>;
};

/** Of a body that anybody may send: names, passwords, tokens. */
const publicLimitBytes = 16 * 1024;
const nothingToDiscard = async () => {};

export async function receiveBody(
  route: Route,
  req: IncomingMessage,
  actor: RequestActor | undefined,
  params: PathParams,
): Promise<ReceivedBody> {
  const spec = route.body;
  if (spec === undefined)
    return { identity: () => null, hasSecrets: () => false, parse: () => undefined, discard: nothingToDiscard };
  if (!('kind' in spec) || (spec.kind !== 'multipart' && !isForm(req))) {
    const schema = 'kind' in spec ? spec.fields : spec;
    const json = await readJsonBody(
      req,
      route.bodyLimitBytes ?? (route.access === 'public' ? publicLimitBytes : undefined),
    );
    return {
      ...identified(schema, json),
      parse: () => validate(schema, json),
      discard: nothingToDiscard,
    };
  }
  if (spec.kind === 'form_or_json') {
    const { fields } = await receiveForm(req, null);
    return {
      ...identified(spec.fields, fields),
      parse: () => validate(spec.fields, fields),
      discard: nothingToDiscard,
    };
  }
  if (actor === undefined) throw new Error(`${route.operationId}: an upload needs a caller`);
  const { fields, file } = await receiveForm(req, {
    store: (upload) => spec.store(actor, upload, params),
    discard: (stored) => spec.discard(stored),
    isFileOptional: spec.kind === 'multipart_or_json',
  });
  const ofFields = identified(spec.fields, fields);
  return {
    ...ofFields,
    identity: () => ({ ...Object(ofFields.identity()), file: file?.sha256, fileName: file?.fileName }),
    parse: () => ({ ...Object(validate(spec.fields, fields)), file }),
    discard: async () => {
      if (file !== undefined) await spec.discard(file);
    },
  };
}

/** Both are asked for under an `Idempotency-Key` only, and found out then. */
function identified(schema: z.ZodType, sent: unknown): Pick<ReceivedBody, 'identity' | 'hasSecrets'> {
  const identity = () => withoutSecrets(schema, sent);
  return { identity, hasSecrets: () => !isDeepStrictEqual(identity(), sent) };
}
